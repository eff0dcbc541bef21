"""Gradients that are clipped while they are still scaled."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_within, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import is_scaler


class ClipBeforeUnscale(Rule):
    code = "HST604"
    name = "clip-before-unscale"
    why = (
        "The scaler's gradients are some thousand times too large: a bound that is meant for the"
        " true ones cuts nearly all of them to nothing."
    )
    instead = "Call `scaler.unscale_(optimizer)` just before clipping."
    effort = "a minute"
    risk = "training changes, as it was meant"
    verify = "Print the norm that `clip_grad_norm_` returns: it should not depend on the scale."
    calls = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
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
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
        """\
import torch
from torch.nn.utils import clip_grad_value_

class Trainer:
    def step(self, loss):
        self.grad_scaler.scale(loss).backward()
        clip_grad_value_(self.model.parameters(), 0.5)  # !
        self.grad_scaler.unscale_(self.optimizer)
        self.grad_scaler.step(self.optimizer)
        self.grad_scaler.update()
""",
        """\
import torch

def train(model, loader, optimizer, scaler, use_amp):
    for x, y in loader:
        loss = model(x, y)
        if not use_amp:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        line = site.node.lineno
        unscaled = any(
            each.node.lineno <= line for each in look.calls_in(site.function, "unscale_")
        )
        if unscaled:
            return
        for step in look.calls_in(site.function, "step"):
            if step.node.lineno < line or not is_scaler(receiver(step.node), step, look):
                continue
            if is_within(site, step.block) or is_within(step, site.block):
                yield Found(site.node, "gradients are clipped while they are still scaled")
                return
