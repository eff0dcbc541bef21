"""A checkpoint that every rank writes."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import RANK_WORDS, is_rank_guard

SETTING = re.compile(r"save|log|write")
WRAPS = ("DistributedDataParallel", "DDP")


class SavedByAllRanks(Rule):
    code = "HST508"
    name = "saved-by-all-ranks"
    why = "All ranks write the same file at the same time: slow, and at worst a broken file."
    instead = "Save under `if rank == 0:`."
    effort = "a minute"
    calls = ("save",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main(net, loader, optimizer, gpu, epochs):
    model = DDP(net, device_ids=[gpu])
    for epoch in range(epochs):
        for x, y in loader:
            model(x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.save(model.state_dict(), "last.pt")  # !
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main(net, loader, rank, epochs):
    model = DDP(net, device_ids=[rank])
    for epoch in range(epochs):
        train(model, loader)
        if rank == 0 and epoch % 5 == 0:
            torch.save(model.state_dict(), "last.pt")
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main(net, loader, epochs):
    model = DDP(net)
    for epoch in range(epochs):
        train(model, loader)
        if dist.get_rank() != 0:
            continue
        torch.save(model.state_dict(), "last.pt")
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main(net, rank):
    model = DDP(net)
    torch.save(model.state_dict(), f"rank{rank}.pt")

def save(model):
    torch.save(model.state_dict(), "last.pt")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.dotted(site.node.func) != "torch.save":
            return
        if not any(look.calls_in(site.function, *WRAPS)) or _chooses_a_rank(site, look):
            return
        yield Found(site.node, "every rank writes this file")


def _chooses_a_rank(site: Site, look: Look) -> bool:
    if RANK_WORDS.search(look.source(site.node)):
        return True
    blocks = site.block.outwards() if site.block is not None else ()
    if any(isinstance(each.node, ast.If) and _may_guard(each.node.test) for each in blocks):
        return True
    return any(
        isinstance(each, ast.If)
        and each.lineno < site.node.lineno
        and isinstance(each.body[-1], ast.Return | ast.Continue)
        and is_rank_guard(each.test)
        for each in walk(site.function.node)
    )


def _may_guard(test: ast.expr) -> bool:
    """Also a setting such as ``args.save_logs``, which may have been made of the rank."""
    is_setting = isinstance(test, ast.Attribute) and SETTING.search(test.attr) is not None
    return is_setting or is_rank_guard(test)
