"""An element of a device tensor that serves as an index."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat, bare
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class IndexByDeviceScalar(Rule):
    code = "HST206"
    name = "index-by-device-scalar"
    why = (
        "Going over a tensor gives tensors; each that serves as an index is read from the device"
        " first, one wait an element."
    )
    instead = (
        "Index with the whole tensor at once, or go over `indices.tolist()`: one wait for all."
    )
    nodes = (ast.Subscript,)
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def rank(scores, relevant):
    order = torch.argsort(scores.cuda())
    for place, index in enumerate(order[:10]):
        if relevant[index]:  # !
            return place
""",
        """\
import torch
from torch import nn

class Hard(nn.Module):
    def forward(self, x, features):
        best, where = torch.max(self.net(x), dim=1)
        return [features[row] for row in where]  # !
""",
        """\
import torch

def rank(scores, relevant):
    order = torch.argsort(scores.cuda())
    picked = relevant[order]
    for place, index in enumerate(order.tolist()):
        if relevant[index] and relevant[place]:
            return picked
    for row in scores.cpu():
        picked = relevant[row]

def masked(values, masks: dict[str, torch.Tensor]):
    for name, mask in masks.items():
        values[mask] = 0
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        index = site.node.slice
        if not isinstance(index, ast.Name):
            return
        bindings = site.function.bindings.get(index.id)
        if not bindings or all(each.how != "loop" for each in bindings):
            return
        binding, _ = look.values.definition(index.id, index.lineno, site.function)
        if binding is None or binding.how != "loop" or binding.value is None:
            return
        if look.value(bare(binding.value), site).kind == "list":
            return  # of which each is a tensor of its own: a mask, or rows
        if look.is_on_device(index, site):
            text = f"`{look.source(site.node)}` reads `{index.id}` from the device"
            yield Found(site.node, text, None, Heat.ONCE)
