"""A training loop that never clears its gradients."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import steps_optimizer

CLEARS = ("zero_grad", ".grad", "zero_", "clear_grad", "reset_grad", "closure")


class GradientsNeverCleared(Rule):
    code = "HST613"
    name = "gradients-never-cleared"
    why = "Each step adds to the gradients of all steps before it: training goes astray."
    instead = "Call `optimizer.zero_grad()` after each step."
    effort = "a minute"
    risk = "training changes, as it was meant"
    calls = ("step",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()  # !
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
""",
        """\
import torch

def clear(optimizer):
    optimizer.zero_grad(set_to_none=True)

def train(model, loader, optimizer):
    for x, y in loader:
        clear(optimizer)
        model(x, y).backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, engine):
    for x, y in loader:
        for p in model.parameters():
            p.grad = None
        model(x, y).backward()
        optimizer.step()
    for x, y in loader:
        engine.backward(engine(x, y))
        engine.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None or not site.loop.has_backward or not steps_optimizer(site, look):
            return
        if not _clears(site.function, look) and not _is_cleared_by_others(site.function, look):
            yield Found(site.node, "gradients are never cleared: each step adds to all before it")


def _clears(function: Function, look: Look) -> bool:
    text = look.text_of(function)
    return any(each in text for each in CLEARS)


def _is_cleared_by_others(function: Function, look: Look) -> bool:
    """By a function of this file that it calls."""
    if "zero_grad" not in look.text:
        return False
    called = {each.called for each in function.calls}
    return any(
        each.last_name in called and _clears(each, look)
        for each in look.outline.functions
        if each is not function
    )
