"""An index on the host for a tensor on the device."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import root_name


class HostIndex(Rule):
    code = "HST214"
    name = "host-index"
    why = "The index is copied to the device first, and Python waits for it."
    instead = "Make the index on the device: `torch.arange(n, device=x.device)`."
    risk = "a random permutation comes from the device's generator and is another than before"
    nodes = (ast.Subscript,)
    indexed = (ast.Name, ast.Tuple, ast.Call, ast.Compare, ast.BinOp, ast.Subscript, ast.ListComp)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, x, y):
        rows = torch.arange(len(x))
        picked = x[rows, y]  # !
        order = np.random.permutation(len(x))
        other = self.net(x)[order]  # !
        best = x.argmax(dim=1)
        picked = picked + x[[i for i in range(len(x))], best]  # !
        rows = torch.arange(len(x))
        picked = picked + x[rows[:, None], y] + x[range(len(x)), y]  # !
        picked = picked + x[rows[:, None], 0]
        return x[torch.arange(len(x)), y] + picked + other  # !
""",
        """\
import numpy as np
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, x, y):
        rows = torch.arange(len(x), device=x.device)
        table = np.zeros(3)
        return x[rows, y], table[np.arange(3)], x.cpu()[torch.arange(3)], x[:, 0]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        index = node.slice
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        for each in indices:
            if isinstance(each, LISTED) and _is_listed(each, site, look):
                is_copied = any(look.is_on_device(other, site) for other in (node.value, *indices))
            elif isinstance(each, MAYBE) or (
                isinstance(each, OF_MADE) and look.makes_tensor(look.origin(each, site))
            ):
                value = look.value(each, site)
                if value.where != "host" or value.kind not in ("tensor", "array"):
                    continue
                is_copied = look.is_on_device(node.value, site)
            else:
                continue
            if is_copied and not _is_said_before(each, site, look):
                yield Found(node, f"`{look.source(each)}` is copied to the device to be an index")
            return


LISTED = ast.ListComp | ast.Call | ast.Name
MAYBE = ast.Name | ast.Call | ast.Compare
OF_MADE = ast.Subscript | ast.BinOp


def _is_listed(index: ast.expr, site: Site, look: Look) -> bool:
    """``[i for i in ...]`` and ``range(n)``."""
    if isinstance(index, ast.Name):
        given = look.values.given(index, site.function)
        return isinstance(given, ast.ListComp | ast.Call) and _is_listed(given, site, look)
    if isinstance(index, ast.Call):
        inner = index.args[0] if called_name(index) == "list" and index.args else index
        return called_name(inner) == "range"
    return isinstance(index, ast.ListComp)


def _is_said_before(index: ast.expr, site: Site, look: Look) -> bool:
    """Whether the same name has been an index on the device above: it is to be made there once."""
    named = root_name(index.left if isinstance(index, ast.BinOp) else index)
    if named is None or named.id not in site.function.bindings:
        return False
    given, _ = look.values.definition(named.id, named.lineno, site.function)
    return given is not None and any(
        each.function is site.function
        and given.line < each.node.lineno < site.node.lineno
        and any(
            isinstance(part, ast.Name) and part.id == named.id for part in walk(each.node.slice)
        )
        and look.is_on_device(each.node.value, each)
        for each in look.outline.nodes.get(ast.Subscript, ())
    )
