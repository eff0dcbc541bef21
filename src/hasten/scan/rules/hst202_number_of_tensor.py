"""A tensor where Python wants a number: ``float(t)``, ``range(t)``, ``max(t, 0)``, ``x[:t]``."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


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
    calls = ("float", "int", "bool", "range", "max", "min", "arange")
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
        return x[:, :longest] * max(x.sum(), 0)  # !
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
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for read in _read(site.node):
            if not isinstance(read, ast.Constant) and look.is_on_device(read, site):
                yield Found(site.node, f"`{look.source(read)}` is read here from the device")
                return


def _read(node: ast.Call | ast.Slice) -> Iterator[ast.expr]:
    """What must be a number for Python to go on."""
    if isinstance(node, ast.Slice):
        yield from (each for each in (node.lower, node.upper) if each is not None)
    elif called_name(node) == "arange" or (
        isinstance(node.func, ast.Name)
        and (len(node.args) > 1 or node.func.id not in ("max", "min"))
    ):
        yield from node.args
