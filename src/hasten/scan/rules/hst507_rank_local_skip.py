"""A step that one rank skips while the others wait for its gradients."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards, is_distributed

CHECKS = frozenset(("isnan", "isinf", "isfinite"))
AGREED = ("all_reduce", "all_gather", "broadcast", "reduce", "gather", "all_gather_object")


class RankLocalSkip(Rule):
    code = "HST507"
    name = "rank-local-skip"
    why = (
        "A loss that is not finite on one rank only makes that rank leave out the backward pass, in"
        " which the others wait for it: training hangs."
    )
    instead = (
        "Let all ranks decide together: all-reduce the flag, or run the backward pass and let"
        " GradScaler or `found_inf` skip the optimizer's step."
    )
    verify = "Plant a NaN on one of two ranks and see that training goes on."
    nodes = (ast.Continue, ast.Break)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, optimizer, rank):
    model = DDP(net, device_ids=[rank])
    for x, y in loader:
        loss = model(x, y)
        if not torch.isfinite(loss):  # !
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import math
import torch
import torch.distributed as dist

def main(model, loader, optimizer):
    dist.init_process_group("nccl")
    for x, y in loader:
        loss = model(x, y)
        if math.isnan(loss.item()):  # !
            print("skipped")
            break
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch
import torch.distributed as dist

def main(model, loader, optimizer):
    dist.init_process_group("nccl")
    for x, y in loader:
        loss = model(x, y)
        bad = (~torch.isfinite(loss)).float()
        dist.all_reduce(bad)
        if torch.isnan(bad):
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch

def main(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        block = site.block
        if block is None or site.loop is None or not isinstance(block.node, ast.If):
            return
        if not site.loop.has_backward or not _checks_numbers(block.node.test):
            return
        line = site.node.lineno
        agreed = any(
            each.loop is site.loop and each.node.lineno < line
            for each in look.calls_in(site.function, *AGREED)
        )
        later = any(each.node.lineno > line for each in backwards(site.function, look))
        if later and not agreed and is_distributed(look):
            yield Found(block.node, "one rank skips the step while the others wait for it")


def _checks_numbers(test: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Call) and called_name(each) in CHECKS for each in ast.walk(test)
    )
