"""``float(tensor)`` in a hot place."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class NumberOfTensor(Rule):
    code = "HST202"
    name = "number-of-tensor"
    why = (
        "Making a Python number of a tensor waits until the device has computed it, just as"
        " `.item()` does."
    )
    instead = "Keep it a tensor, on the device, until the loop is over."
    calls = ("float", "int", "bool")
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
        return x[:, :longest]
""",
        """\
import torch

def train(model, loader, optimizer):
    total = torch.zeros((), device="cuda")
    for x, y in loader:
        loss = model(x.float(), y)
        rows = int(x.shape[0])
        share = float(len(y)) / rows
        loss.backward()
        total += loss.detach() * share
    return float(total)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if not isinstance(call.func, ast.Name) or len(call.args) != 1:
            return
        if look.is_on_device(call.args[0], site):
            yield Found(call, f"`{look.source(call)}` waits for the device")
