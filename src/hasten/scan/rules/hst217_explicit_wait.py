"""``torch.cuda.synchronize()`` in a hot place."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.clocks import TELLS_ELSE
from hasten.scan.edits import leave_out
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

ABOUT = f"Leaves it out: {TELLS_ELSE}."


class ExplicitWait(Rule):
    code = "HST217"
    name = "explicit-wait"
    why = (
        "It waits until the device has nothing left to do. Only a clock needs that: results are"
        " right without it."
    )
    instead = "Remove it; to measure, time many steps and wait once, or record events."
    calls = ("synchronize",)
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        torch.cuda.synchronize()  # !
""",
        """\
import time
import torch

def train(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        model(x, y).backward()
        optimizer.step()
        if step % 100 == 0:
            torch.cuda.synchronize()
            print(time.perf_counter())
    torch.cuda.synchronize()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.dotted(site.node.func).startswith(
            ("torch.cuda.", "torch.accelerator.", "torch.xpu.")
        ):
            message = f"`{look.source(site.node)}` waits for the device each time"
            yield Found(site.node, message, leave_out(site, look.lines, ABOUT))
