"""A clock that is read while the device still works."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ClockWithoutWait(Rule):
    code = "HST219"
    name = "clock-without-wait"
    why = (
        "Launches return before the device has done the work: what is measured is how fast Python"
        " launches, and the work is counted wherever the next wait stands."
    )
    instead = (
        "Measure many steps and call `torch.cuda.synchronize()` before each reading of the clock,"
        " or record `torch.cuda.Event`s."
    )
    risk = "waiting each step costs time itself: measure seldom"
    verify = "Compare with the time of many steps, divided by their count."
    calls = ("time", "perf_counter", "monotonic")
    severity = "info"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import time
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        start = time.perf_counter()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        took = time.perf_counter() - start  # !
""",
        """\
import time
import torch

def train(model, loader, optimizer):
    begin = time.time()
    for x, y in loader:
        start = time.time()
        loss = model(x, y)
        loss.backward()
        torch.cuda.synchronize()
        took = time.time() - start
        start = time.time()
        model(x, y).sum().item()
        took = time.time() - start
        start = time.time()
        rows = len(y)
        took = time.time() - start
    return time.time() - begin
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        difference = site.parent
        if site.loop is None or not isinstance(difference, ast.BinOp):
            return
        start = difference.right
        if not isinstance(difference.op, ast.Sub) or not isinstance(start, ast.Name):
            return
        binding, scope = look.values.definition(start.id, start.lineno, site.function)
        if binding is None or scope is not site.function or binding.line >= start.lineno:
            return
        timed = [
            each
            for each in site.function.calls
            if each.loop is site.loop and binding.line < each.node.lineno < start.lineno
        ]
        names = {each.called for each in timed}
        if "backward" in names and not names & WAITS:
            yield Found(
                difference, f"`{look.source(difference)}` leaves out what the device still does"
            )


WAITS = frozenset(("synchronize", "item", "cpu", "tolist", "numpy", "float", "int", "print"))
