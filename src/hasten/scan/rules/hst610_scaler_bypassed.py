"""An optimizer that steps with scaled gradients."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_within, receiver
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards, is_scaler, steps_optimizer


class ScalerBypassed(Rule):
    code = "HST610"
    name = "scaler-bypassed"
    why = (
        "The gradients are multiplied by the scale; only `scaler.step` divides them again, and"
        " skips the step where one is infinite."
    )
    instead = "Call `scaler.step(optimizer)` and `scaler.update()`."
    effort = "a minute"
    risk = "training changes, as it was meant"
    calls = ("step",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, scaler):
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = model(x, y)
        scaler.scale(loss).backward()
        optimizer.step()  # !
        optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, scaler, amp):
    for x, y in loader:
        loss = model(x, y)
        if amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, scaler, amp):
    for x, y in loader:
        if amp:
            scaler.scale(model(x, y)).backward()
            self.apply(scaler)
        else:
            model(x, y).backward()
            optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if is_scaler(receiver(site.node), site, look) or not steps_optimizer(site, look):
            return
        scaled = [each for each in backwards(site.function, look) if _is_scaled(each, look)]
        if not scaled or _uses_scaler(site.function, look):
            return
        if any(is_within(site, each.block) for each in scaled):
            yield Found(site.node, f"`{look.source(site.node)}` takes gradients that are scaled")


def _is_scaled(site: Site, look: Look) -> bool:
    """``scaler.scale(loss).backward()``."""
    on = receiver(site.node)
    return (
        isinstance(on, ast.Call)
        and called_name(on) == "scale"
        and is_scaler(receiver(on), site, look)
    )


def _uses_scaler(function: Function, look: Look) -> bool:
    return any(
        is_scaler(receiver(each.node), each, look)
        for each in look.calls_in(function, "step", "unscale_")
    )
