"""``scaler.update()`` where there was no step."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_within, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import is_scaler


class ScalerUpdateWithoutStep(Rule):
    code = "HST611"
    name = "scaler-update-without-step"
    why = (
        "The scale may change only together with a step of the optimizer: in between, `update`"
        " finds nothing that was checked for infinities and raises an error, or the gradients of a"
        " window get different scales."
    )
    instead = "Call `scaler.update()` under the same condition as `scaler.step(optimizer)`."
    effort = "a minute"
    calls = ("update",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, scaler, k):
    for i, (x, y) in enumerate(loader):
        scaler.scale(model(x, y) / k).backward()
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()  # !
""",
        """\
import torch

def train(model, loader, optimizer, scaler, k, seen):
    for i, (x, y) in enumerate(loader):
        scaler.scale(model(x, y) / k).backward()
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        seen.update(i)
""",
        """\
import torch

def train(model, loader, optimizer, scaler):
    for x, y in loader:
        scaler.scale(model(x, y)).backward()
        scaler.step(optimizer)
        scaler.update()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None or site.node.args or not is_scaler(receiver(site.node), site, look):
            return
        steps = [
            each
            for each in look.calls_in(site.function, "step")
            if each.loop is site.loop and is_scaler(receiver(each.node), each, look)
        ]
        if steps and all(_is_now_and_then(each, site) for each in steps):
            yield Found(site.node, "the scale is updated where no step was made")


def _is_now_and_then(step: Site, update: Site) -> bool:
    """Whether the step has a condition with a remainder that the update has not."""
    return any(
        isinstance(block.node, ast.If)
        and any(isinstance(each, ast.Mod) for each in walk(block.node.test))
        and not is_within(update, block)
        for block in (step.block.outwards() if step.block is not None else ())
    )
