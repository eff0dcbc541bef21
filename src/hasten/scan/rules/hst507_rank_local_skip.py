"""A step that one rank skips while the others wait for its gradients."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import is_distributed

CHECKS = frozenset(("isnan", "isinf", "isfinite"))
COLLECTIVES = ("all_reduce", "all_gather", "all_gather_into_tensor", "broadcast", "reduce")
WRAPPERS = ("gather", "reduce_tensor", "reduce_mean", "reduce_value", "all_gather_object")


class RankLocalSkip(Rule):
    code = "HST507"
    name = "rank-local-skip"
    why = (
        "A value of one rank decides that this rank leaves out a backward pass or a collective, in"
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
import torch.distributed as dist

def update(policy, batches, epochs, bound, size):
    for epoch in range(epochs):
        for batch in batches:
            ratio = torch.exp(policy(batch))
            kl = (ratio - 1 - ratio.log()).mean()
            ratio.mean().backward()
            for p in policy.parameters():
                dist.all_reduce(p.grad)
        if bound is not None and kl > bound:  # !
            break
""",
        """\
import torch
import torch.distributed as dist

def update(policy, batches, epochs, bound):
    for epoch in range(epochs):
        for batch in batches:
            kl = torch.exp(policy(batch)).mean()
            dist.all_reduce(kl)
        if kl > bound:
            break
        if epoch > bound:
            break

def alone(policy, batches, bound):
    for batch in batches:
        kl = torch.exp(policy(batch)).mean()
        if kl > bound:
            break
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
        test = block.node.test
        if not (_checks_numbers(test) or _compares_tensor(test, site, look)):
            return
        if _is_awaited(site, look) and not _is_agreed(test, site, look):
            yield Found(block.node, "one rank leaves the loop while the others wait for it")


def _checks_numbers(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and called_name(each) in CHECKS for each in walk(test))


def _compares_tensor(test: ast.expr, site: Site, look: Look) -> bool:
    """``kl > bound``, of a name that was computed here."""
    return any(
        isinstance(each, ast.Name) and look.value(each, site).kind == "tensor"
        for part in walk(test)
        if isinstance(part, ast.Compare)
        for each in (part.left, *part.comparators)
    )


def _is_awaited(site: Site, look: Look) -> bool:
    """Whether later turns, or the rest of this one, have something in which ranks wait."""
    if site.loop is not None and site.loop.has_backward and is_distributed(look):
        return True
    return any(_is_inside(each, site.loop) for each in _collectives(site, look))


def _is_inside(site: Site, loop: Loop | None) -> bool:
    return site.loop is not None and any(each is loop for each in site.loop.outwards())


def _collectives(site: Site, look: Look) -> Iterator[Site]:
    return (
        each
        for each in look.calls_in(site.function, *COLLECTIVES)
        if "dist" in look.dotted(each.node.func)
    )


def _is_agreed(test: ast.expr, site: Site, look: Look) -> bool:
    """Whether what is tested was exchanged before, or is what an exchange gave."""
    tested = {*names_in(test)}
    for each in look.calls_in(site.function, *COLLECTIVES, *WRAPPERS):
        if each.node.lineno < site.node.lineno:
            sent = {name for part in each.node.args for name in names_in(part)}
            if tested & (sent | _targets(each)):
                return True
    return False


def _targets(site: Site) -> set[str]:
    statement = site.statement
    if not isinstance(statement, ast.Assign):
        return set()
    return {name for each in statement.targets for name in names_in(each)}
