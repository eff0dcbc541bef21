"""An element of a device tensor that serves as an index."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Binding, Site
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
    indexed = (ast.Name, ast.Tuple, ast.Call)
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
import numpy as np
import torch

def confusion(model, loader):
    counts = np.zeros((10, 10))
    for x, y in loader:
        found = model(x).argmax(1)
        for wanted, given in zip(y.cuda(), found):
            counts[wanted.long(), given.long()] += 1  # !
    return counts
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
    chosen = [each.nonzero().squeeze(1) for each in scores.cuda()]
    return [relevant[rows] for rows in chosen]

def masked(values, masks: dict[str, torch.Tensor]):
    for name, mask in masks.items():
        values[mask] = 0
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        index = site.node.slice
        for each in index.elts if isinstance(index, ast.Tuple) else (index,):
            each = _unconverted(each)
            if isinstance(each, ast.Name) and _is_element(each, site, look):
                text = f"`{look.source(site.node)}` reads `{each.id}` from the device"
                yield Found(site.node, text, None, Heat.ONCE)
                return


def _unconverted(index: ast.expr) -> ast.expr:
    """``i`` of ``i.long()``."""
    if isinstance(index, ast.Call) and called_name(index) in ("long", "int") and not index.args:
        return receiver(index) or index
    return index


def _is_element(index: ast.Name, site: Site, look: Look) -> bool:
    """Whether a loop over a tensor gives it; of a list of tensors each may have many values."""
    bindings = site.function.bindings.get(index.id)
    if not bindings or all(each.how != "loop" for each in bindings):
        return False
    binding, _ = look.values.definition(index.id, index.lineno, site.function)
    if binding is None or binding.how != "loop" or not look.is_on_device(index, site):
        return False
    return look.value(_gone_over(binding), site).kind != "list"


def _gone_over(binding: Binding) -> ast.expr | None:
    """What gives the name its values: ``y`` for ``b`` of ``for a, b in zip(x, y)``."""
    over, path = binding.value, binding.path
    while isinstance(over, ast.Call) and over.args:
        match called_name(over):
            case "enumerate":
                path = path[1:]
            case "zip":
                place = path[0] if path else 0
                return over.args[place] if place < len(over.args) else None
            case "tqdm" | "iter" | "reversed":
                pass
            case _:
                break
        over = over.args[0]
    return over
