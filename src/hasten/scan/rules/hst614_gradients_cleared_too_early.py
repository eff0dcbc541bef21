"""Gradients that are cleared between the backward pass and the step."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards, steps_optimizer


class GradientsClearedTooEarly(Rule):
    code = "HST614"
    name = "gradients-cleared-too-early"
    why = "The optimizer steps with no gradients: the backward pass was for nothing."
    instead = "Clear gradients after the step, or before the backward pass."
    effort = "a minute"
    risk = "training changes, as it was meant"
    calls = ("zero_grad",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.zero_grad()  # !
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        """\
import torch

def train(g, d, loader, optimizer_g, optimizer_d):
    for x in loader:
        optimizer_d.zero_grad()
        d(g(x).detach()).backward()
        optimizer_g.zero_grad()
        optimizer_d.step()
        d(g(x)).backward()
        optimizer_g.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = receiver(site.node)
        if on is None or site.loop is None:
            return
        whose, line = look.source(on), site.node.lineno
        passes = [each.node.lineno for each in backwards(site.function, look)]
        steps = [
            each.node.lineno
            for each in look.calls_in(site.function, "step")
            if each.block is site.block and _steps(each, whose, look)
        ]
        after = next((each for each in steps if each > line), None)
        before = max((each for each in steps if each < line), default=0)
        if after is None or any(line < each <= after for each in passes):
            return
        if any(max(before, site.loop.line) < each < line for each in passes):
            yield Found(site.node, f"`{whose}` steps without the gradients that were just computed")


def _steps(site: Site, whose: str, look: Look) -> bool:
    on = receiver(site.node)
    return on is not None and look.source(on) == whose and steps_optimizer(site, look)
