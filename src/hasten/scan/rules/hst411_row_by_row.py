"""A kernel that works on whole tensors, called for one row or one quantile at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import is_bound_in, last_given, last_name, operands, varies

BATCHED = ("topk", "sort", "argsort", "quantile", "kthvalue", "median", "cumsum", "cdist", "svd")


class RowByRow(Rule):
    code = "HST411"
    name = "row-by-row-kernels"
    why = "Each turn of the loop launches kernels for one row, most of which is launching."
    instead = (
        "Call it once on the whole tensor with `dim=`; `quantile` takes all quantiles at once."
    )
    calls = (*BATCHED, "grad")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def best(scores, k):
    found = []
    for i in range(len(scores)):
        values, indices = scores[i].topk(k)  # !
        found.append(indices)
    return found
""",
        """\
import torch

def crps(samples, levels):
    total = 0
    for i in range(len(levels)):
        total += torch.quantile(samples.sum(-1), levels[i], dim=1)  # !
    return total
""",
        """\
import torch
from torch import autograd

def jacobian(f, x):
    y = f(x)
    rows = []
    for i in range(y.size(1)):
        rows.append(torch.autograd.grad(y[:, i].sum(), x, retain_graph=True)[0])  # !
    return torch.stack(rows, dim=1)

def divergence(y, x):
    found = 0.0
    for i in range(y.shape[-1]):
        part = y[..., i]
        found += autograd.grad(part, x, torch.ones_like(part), create_graph=True)[0][..., i]  # !
    return found
""",
        """\
import torch

def steps(model, loader, x):
    for i, batch in enumerate(loader):
        grads = torch.autograd.grad(model(batch), x)
    return grads

def best(scores, loader, levels, k):
    values, indices = scores.topk(k, dim=1)
    for batch in loader:
        torch.topk(batch["x"], k)
    return torch.quantile(values, levels)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop, name = site.loop, site.called
        if loop is None or look.dotted(site.node.func).startswith(("numpy", "np.")):
            return
        if name == "sort" and isinstance(site.parent, ast.Expr):
            return  # of a list, in place
        if name == "grad":
            if look.is_of_torch(site.node) and _is_of_column(site.node, loop):
                yield Found(site.node, "a backward pass is run for each column of what is given")
            return
        counted = [
            each
            for each in operands(site.node)
            if isinstance(each, ast.Subscript)
            and isinstance(_index(each), ast.Name)
            and is_bound_in(last_name(_index(each)), loop)
        ]
        worked_on = next((each for each in operands(site.node) if last_name(each) != "torch"), None)
        if not counted or look.value(worked_on, site).kind in HOST:
            return
        if name == "quantile" or _is_row(counted[0], site.node, loop):
            yield Found(site.node, f"`{name}` is called for one part of a tensor at a time")


def _is_of_column(call: ast.Call, loop: Loop) -> bool:
    """Whether its outputs are ``y[:, i]`` for an ``i`` that the loop counts, or made of it."""
    given = argument(call, 0, "outputs")
    made = last_given(given, loop.function) if isinstance(given, ast.Name) else given
    return made is not None and any(
        isinstance(each, ast.Subscript) and varies(each.slice, loop) for each in walk(made)
    )


HOST = ("array", "frame", "batch", "dict", "text")


def _index(node: ast.Subscript) -> ast.expr | None:
    """``i`` of ``x[i]`` and of ``x[i : i + 1]``."""
    return node.slice.lower if isinstance(node.slice, ast.Slice) else node.slice


def _is_row(node: ast.Subscript, call: ast.Call, loop: Loop) -> bool:
    """Whether it is what the call works on, and the loop counts rows of it."""
    if operands(call)[0] is not node and call.args[:1] != [node]:
        return False
    counting = (each for each in loop.outwards() if varies(node.slice, each))
    target, over = next(counting, loop).header()
    if called_name(over) not in ("range", "trange", "enumerate", "tqdm"):
        return False
    counter = target.elts[0] if isinstance(target, ast.Tuple) else target
    return last_name(counter) == last_name(_index(node))
