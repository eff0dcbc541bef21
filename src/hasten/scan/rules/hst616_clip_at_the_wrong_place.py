"""Gradients that are clipped when it is too late or too early."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards, optimizer_steps


class ClipAtTheWrongPlace(Rule):
    code = "HST616"
    name = "clip-at-the-wrong-place"
    why = (
        "Clipping changes gradients between the backward pass and the step; anywhere else it costs"
        " a norm over all of them and changes nothing."
    )
    instead = "Clip after `backward()` and before `optimizer.step()`."
    effort = "a minute"
    risk = "training changes, as it was meant"
    calls = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)  # !
        loss.backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, other, clip):
    for x, y in loader:
        model(x, y).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
    for x, y in loader:
        model(x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        other.step()
        optimizer.step()
        optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        line = site.node.lineno
        passes = _lines_beside(site, backwards(site.function, look))
        steps = _lines_beside(site, optimizer_steps(site.function, look))
        if not passes or not steps:
            return
        is_between = any(each <= line for each in passes) and any(each >= line for each in steps)
        if not is_between:
            yield Found(site.node, "gradients are clipped where it changes nothing")


def _lines_beside(site: Site, others: Iterator[Site]) -> list[int]:
    """Of calls in the same body."""
    return [each.node.lineno for each in others if each.block is site.block]
