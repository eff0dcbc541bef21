"""The device's cache is emptied by what the host's memory says."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

HOST = frozenset(("virtual_memory", "memory_percent", "memory_info", "swap_memory", "psutil"))


class HostMemoryForDevice(Rule):
    code = "HST657"
    name = "host-memory-for-device"
    why = (
        "The host's memory says nothing of the device's: the cache is emptied for no reason, with a"
        " wait for the device and new allocations after it."
    )
    instead = "Remove it; look at `torch.cuda.memory_stats()` where memory is short."
    effort = "a minute"
    calls = ("empty_cache",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import psutil
import torch

def relieve():
    if psutil.virtual_memory().percent > 80:
        torch.cuda.empty_cache()  # !
""",
        """\
import psutil
import torch

def relieve(limit):
    used = psutil.virtual_memory().percent
    if used > limit:
        torch.cuda.empty_cache()  # !
""",
        """\
import torch

def relieve():
    if torch.cuda.memory_reserved() > 2**33:
        torch.cuda.empty_cache()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for block in site.block.outwards() if site.block is not None else ():
            if isinstance(block.node, ast.If) and _asks_the_host(block.node.test, site, look):
                yield Found(site.node, "the host's memory says nothing of the device's")
                return


def _asks_the_host(test: ast.expr, site: Site, look: Look) -> bool:
    asked = {*names_in(test)}
    for each in walk(test):
        if isinstance(each, ast.Name):
            asked |= {*names_in(look.values.given(each, site.function) or each)}
    return bool(asked & HOST)
