"""Collectives one after the other that could be one."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, names_in, receiver
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import FOLLOWED, names
from hasten.scan.training import last_name

REDUCES = (
    "all_reduce",
    "allreduce",
    "reduce",
    "reduce_tensor",
    "reduce_mean",
    "reduce_value",
    "reduce_across_processes",
)
GATHERS = (
    "all_gather",
    "allgather",
    "all_gather_into_tensor",
    "all_gather_with_grad",
    "concat_all_gather",
    "gather_for_metrics",
    "broadcast",
)
FUNCTIONS = re.compile(r"gather|reduce", re.IGNORECASE)
OWNERS = re.compile(
    r"dist|accelerator|fabric|comm|^hvd$|^xm$|^nn$|util|^self$|funcol", re.IGNORECASE
)
WORLD = re.compile(r"world|num_replicas|(num|n)_ranks")
ENOUGH = {"reduce": 2, "gather": 3}
"""So many in a row are worth one word: sums are mostly of single numbers, what is gathered is
often large."""


class SmallCollectives(Rule):
    code = "HST506"
    name = "small-collectives"
    why = (
        "A collective costs a launch and a wait for all ranks however small its tensor is; several"
        " in a row cost that several times."
    )
    instead = "Put the tensors into one (`torch.stack`, `torch.cat`), send that, and take it apart."
    calls = (*REDUCES, *GATHERS, "apply")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.distributed as dist

def train(model, loader, optimizer):
    for x, y in loader:
        loss, right, count = model(x, y)
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss)  # !
        dist.all_reduce(right)  # !
        dist.all_reduce(count)  # !
""",
        """\
import torch
from mine import AllGatherGrad

class Dice(torch.nn.Module):
    def forward(self, tp, fp, fn):
        if self.ddp:
            tp = AllGatherGrad.apply(tp).sum(0)  # !
            fp = AllGatherGrad.apply(fp).sum(0)  # !
            fn = AllGatherGrad.apply(fn).sum(0)  # !
        return tp / (tp + fp + fn)
""",
        """\
import torch
import torch.distributed as dist

class Codebook(torch.nn.Module):
    def forward(self, z, ddp):
        counts = z.sum(0)
        if ddp:
            dist.all_reduce(counts)  # !
        sums = z.T @ z
        if ddp:
            dist.all_reduce(sums)  # !
        return counts, sums
""",
        """\
import torch
import torch.distributed as dist

def average(model, size):
    for p in model.parameters():
        dist.all_reduce(p.grad.data, op=dist.ReduceOp.SUM)  # !
        p.grad.data /= size
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, y):
        loss = self.compare(x, y)
        for i in range(self.world_size):
            other = torch.distributed.nn.all_reduce(y * (self.rank == i))  # !
            loss += self.compare(x, other)
        return loss
""",
        """\
import torch
import torch.distributed as dist

def evaluate(model, loader):
    for x, y in loader:
        metrics = model(x, y)
        for name, value in metrics.items():
            dist.all_reduce(value)  # !
""",
        """\
import torch
import torch.distributed as dist

def train(model, loader, optimizer):
    seen = torch.zeros(2, device="cuda")
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        seen += torch.stack([loss.detach(), torch.ones_like(loss)])
        dist.all_reduce(loss)
    dist.all_reduce(seen)

def balance(x: torch.Tensor):
    total = x.sum()
    dist.all_reduce(total)
    x /= total
    rows = x.sum(dim=1)
    dist.all_reduce(rows)
    return x / rows

def begin(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)

class Loss(torch.nn.Module):
    def forward(self, image, text):
        image = Square.apply(image)
        text = Square.apply(text)
        return image @ text.T
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        kind = _kind(site, look)
        if not kind:
            return
        message = f"`{look.source(site.node.func)}` is one of several small collectives"
        if _is_for_each(site, look):
            of_gradients = any("grad" in names_in(each) for each in site.node.args)
            yield Found(site.node, message, least=Heat.ONCE if of_gradients else None)
        elif _in_a_row(site, kind, look) >= ENOUGH[kind]:
            yield Found(site.node, message)


def _kind(site: Site, look: Look) -> str:
    name, on = site.called, receiver(site.node)
    if name == "apply":
        if not isinstance(on, ast.Name) or not FUNCTIONS.search(on.id):
            return ""
        return "gather" if "gather" in on.id.lower() else "reduce"
    if on is None and name in ("reduce", "broadcast"):  # as of functools
        return ""
    if on is not None and not OWNERS.search(last_name(on)):
        return ""
    return "reduce" if name in REDUCES else "gather"


def _is_for_each(site: Site, look: Look) -> bool:
    """Whether a loop that is neither of steps nor of epochs makes it one for each tensor, or one
    for each rank."""
    loop: Loop | None = site.loop
    if loop is None or look.heats.kind_of(loop) is not None:
        return False
    target, over = loop.header()
    if isinstance(over, ast.Call) and called_name(over) == "range":
        return any(WORLD.search(each) for each in names_in(over))
    return target is not None and bool(
        {*names_in(target)} & {each for arg in site.node.args for each in names_in(arg)}
    )


def _in_a_row(site: Site, kind: str, look: Look) -> int:
    place = _place(site, look)
    return sum(
        _kind(each, look) == kind
        and _place(each, look) == place
        and not _needs(each, site)
        and not _needs(site, each)
        for each in look.calls_in(site.function, site.called)
    )


def _needs(later: Site, earlier: Site) -> bool:
    """Whether what one sends is computed of what the other has brought."""
    first, last = earlier.node.lineno, later.node.lineno
    if first >= last:
        return False
    brought = {each.id for each in earlier.node.args[:1] if isinstance(each, ast.Name)}
    if isinstance(earlier.statement, ast.Assign):
        brought |= {each for target in earlier.statement.targets for each in names(target)}
    sent = {each for arg in later.node.args for each in names(arg)}
    for _ in range(FOLLOWED):
        more = {
            each
            for name in sent
            for binding in later.function.bindings.get(name, ())
            if binding.value is not None and first < binding.line <= last
            for each in names(binding.value)
        }
        if more <= sent:
            break
        sent |= more
    return not sent.isdisjoint(brought - {"self"})


def _place(site: Site, look: Look) -> tuple[int, str]:
    """The body that it stands in; two conditions that are alike count as one."""
    block = site.block
    if block is not None and isinstance(block.node, ast.If):
        return id(block.parent), f"{block.branch} {look.source(block.node.test)}"
    return id(block), ""
