"""A tensor where Python wants a number: ``float(t)``, ``range(t)``, ``max(t, 0)``, ``x[:t]``,
``math.exp(t)``, ``torch.zeros(t)``."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

NUMBERS = ("float", "int", "bool", "range", "max", "min")
OF_MATH = ("exp", "sqrt", "log", "ceil", "floor", "pow")
SIZED = (
    "arange", "zeros", "ones", "empty", "full", "rand", "randn", "eye", "new_zeros", "new_ones",
    "new_full", "new_empty",
)  # fmt: skip
"""What takes numbers for the shape of its result."""
OF_SIZES = (*SIZED, *OF_MATH, "range")


class NumberOfTensor(Rule):
    code = "HST202"
    name = "number-of-tensor"
    why = (
        "Where Python wants a number, a tensor is read from the device: that waits until it is"
        " computed, just as `.item()` does."
    )
    instead = (
        "Keep it a tensor, on the device, until the loop is over; `torch.clamp` instead of `max`."
    )
    calls = (*NUMBERS, *OF_MATH, *SIZED)
    nodes = (ast.Slice,)
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total += float(loss)  # !
    return total
""",
        """\
import torch
from torch import nn

class Pool(nn.Module):
    def forward(self, x, lengths):
        longest = int(lengths.max())  # !
        for step in range(lengths.max()):  # !
            x = x[:, : lengths.min()]  # !
        x = x + torch.arange(lengths.max(), device=x.device)  # !
        x = x / max(x.sum(dim=1))  # !
        return x[:, :longest] * max(x.sum(), 0)  # !
""",
        """\
import math
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        likely = math.exp(-loss)  # !
        counts = torch.zeros(len(x), y.cuda().max() + 1, device="cuda")  # !
        padded = loss.new_zeros((3, y.cuda().sum()))  # !
""",
        """\
import math
import torch
from torch import nn

class Cut(nn.Module):
    def grid(self, h, w, device):
        return torch.arange(h, device=device), torch.zeros(h, w, device=device), math.ceil(h / 2)

    def forward(self, x, length, pad, lengths):
        x = x + max(lengths) + min(len(each) for each in x)
        shares = torch.zeros(x.shape, device=x.device) + torch.exp(x) + math.exp(len(x))
        x = x.expand(3, -1, x.size(1)) + torch.full((3, 1), 2.0, device=x.device)
        shape = torch.broadcast_shapes(x.shape, shares.shape)
        return x[..., pad : pad + length] + shares + torch.zeros(*shape, 1, device=x.device)
""",
        """\
import torch

def train(model, loader, optimizer):
    total = torch.zeros((), device="cuda")
    for x, y in loader:
        loss = model(x.float(), y)
        rows = int(x.shape[0])
        share = float(len(y)) / max(rows, len(x), x.max().shape[0]) + max(x)
        x = x[: x.shape[0] // 2, 1:]
        loss.backward()
        total += loss.detach() * share
    return float(total)

def train_step(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total += loss.detach().double()
    total = float(total)
    return total

def train_heads(model, loader, optimizer, heads):
    for x, y in loader:
        total = model(x, y).sum()
        for head in heads:
            total = total + head(x).sum()
        total.backward()
        total = float(total)  # !
        optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.draws(site) or _is_sum_of_loop(site, look):
            return
        for read in _read(site.node, look):
            if not isinstance(read, ast.Constant) and _waits(read, site, look):
                yield Found(site.node, f"`{look.source(read)}` is read here from the device")
                return


def _is_sum_of_loop(site: Site, look: Look) -> bool:
    """``total = float(total)`` after the loop over batches that has added it up: one read for all
    of them."""
    match site.statement:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=read)]) as call
        ) if call is site.node and read == name:
            above = [
                each
                for each in site.function.loops
                if (each.node.end_lineno or 0) < call.lineno and look.heats.goes_over_batches(each)
            ]
            given = site.function.bindings.get(name, ())
            return any(loop.holds(each.line) for loop in above for each in given)
    return False


def _read(node: ast.Call | ast.Slice, look: Look) -> Iterator[ast.expr]:
    """What must be a number for Python to go on."""
    if isinstance(node, ast.Slice):
        yield from (each for each in (node.lower, node.upper) if each is not None)
        return
    name = called_name(node)
    if name in OF_MATH:
        yield from node.args if look.dotted(node.func).startswith("math.") else ()
    elif name in SIZED:
        for each in node.args:
            yield from each.elts if isinstance(each, ast.Tuple | ast.List) else (each,)
    elif isinstance(node.func, ast.Name):
        yield from node.args


def _waits(read: ast.expr, site: Site, look: Look) -> bool:
    if isinstance(read, ast.Starred) or last_name(read).endswith(("shape", "size")):
        return False
    if isinstance(read, ast.BinOp):
        return _waits(read.left, site, look) or _waits(read.right, site, look)
    if not look.is_on_device(read, site):
        return False
    is_size = isinstance(site.node, ast.Slice) or site.called in OF_SIZES or _is_of_all(site.node)
    is_size = is_size and not last_name(read).endswith("loss")
    return not (is_size and look.is_only_named(read, site))


def _is_of_all(node: ast.AST) -> bool:
    """``max(x)``: of a tensor it asks for one element after the other."""
    return called_name(node) in ("max", "min") and len(node.args) == 1  # type: ignore[attr-defined]
