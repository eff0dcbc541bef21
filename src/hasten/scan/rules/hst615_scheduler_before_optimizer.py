"""A schedule that steps before the optimizer."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_within, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import last_name, optimizer_steps


class SchedulerBeforeOptimizer(Rule):
    code = "HST615"
    name = "scheduler-before-optimizer"
    why = "The first value of the learning rate's schedule is skipped; torch warns of it."
    instead = "Call `scheduler.step()` after `optimizer.step()`, at the end of the loop's body."
    effort = "a minute"
    risk = "the learning rate is that of one step before, as it was meant"
    calls = ("step",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, scheduler, epochs):
    for epoch in range(epochs):
        scheduler.step()  # !
        for x, y in loader:
            optimizer.zero_grad()
            model(x, y).backward()
            optimizer.step()
""",
        """\
import torch

def main(model, loader, optimizer, lr_scheduler, epochs):
    for epoch in range(epochs):
        lr_scheduler.step()  # !
        train(model, loader, optimizer)
""",
        """\
import torch

def train(model, loader, optimizer, scheduler, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            model(x, y).backward()
            optimizer.step()
            scheduler.step()
""",
        """\
import torch

def main(model, loader, optimizer, scheduler, warm, epochs):
    for epoch in range(epochs):
        warm.step(epoch)
        model.train()
        train(model, loader, optimizer)
        scheduler.step()
        model.train()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        block, on = site.block, receiver(site.node)
        if block is None or not isinstance(block.node, ast.For | ast.While) or on is None:
            return
        if site.node.args or site.node.keywords or not _is_schedule(on, site, look):
            return
        steps = [each for each in optimizer_steps(site.function, look) if is_within(each, block)]
        steps = steps or [each for each in site.function.calls if _trains(each, site)]
        lines = [each.node.lineno for each in steps]
        if lines and min(lines) > site.node.lineno:
            yield Found(site.node, f"`{look.source(site.node)}` skips the schedule's first value")


def _is_schedule(node: ast.expr, site: Site, look: Look) -> bool:
    return look.value(node, site).kind == "scheduler" or "sched" in last_name(node).lower()


def _trains(call: Site, site: Site) -> bool:
    """Of a call of the same body."""
    return (
        call.block is site.block
        and called_name(call.node).startswith("train")
        and bool(call.node.args)
    )
