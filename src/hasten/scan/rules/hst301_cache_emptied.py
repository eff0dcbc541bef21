"""The allocator's cache or the garbage collector, again and again."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.edits import leave_out
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

ABOUT = "Leaves it out: other programs on the device may get less memory."


class CacheEmptied(Rule):
    code = "HST301"
    name = "cache-emptied-in-loop"
    why = (
        "It waits for the device and gives back memory that the next step has to ask for again; the"
        " peak stays the same."
    )
    instead = "Leave it out; `del` what is large and no longer needed."
    effort = "a minute"
    calls = ("empty_cache", "collect")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import gc
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        torch.cuda.empty_cache()  # !
        gc.collect()  # !
""",
        """\
import gc
import torch

def train(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        try:
            model(x, y).backward()
        except RuntimeError:
            torch.cuda.empty_cache()
        optimizer.step()
        if step % 1000 == 0:
            gc.collect()
    torch.cuda.empty_cache()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        called = look.dotted(site.node.func)
        if called_name(site.node) == "empty_cache" or called == "gc.collect":
            yield Found(
                site.node, f"`{called}` runs again and again", leave_out(site, look.lines, ABOUT)
            )
