"""All differences of all pairs, held as one tensor."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

REDUCED = ("pow", "abs", "norm", "square")


class PairwiseDifferences(Rule):
    code = "HST313"
    name = "pairwise-differences"
    why = "The tensor has rows by rows by features elements, of which only a sum is wanted."
    instead = "Use `torch.cdist`, or products: `|x|^2 + |y|^2 - 2 x @ y.t()`."
    risk = "rounding: sums are taken in another order"
    calls = REDUCED
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Kernel(torch.nn.Module):
    def forward(self, x, y):
        near = (x.unsqueeze(1) - y.unsqueeze(0)).pow(2).sum(-1)  # !
        far = torch.norm(x[:, None] - y[None], dim=-1)  # !
        return near, far
""",
        """\
import torch

class Kernel(torch.nn.Module):
    def forward(self, x, y, centre):
        return torch.cdist(x, y), (x - centre.unsqueeze(0)).pow(2)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        held = [*call.args[:1]]
        if isinstance(call.func, ast.Attribute):
            held.append(call.func.value)
        for each in held:
            if (
                isinstance(each, ast.BinOp)
                and isinstance(each.op, ast.Sub)
                and _is_lifted(each.left)
                and _is_lifted(each.right)
            ):
                yield Found(call, f"`{look.source(each)}` holds a row for every pair")


def _is_lifted(node: ast.expr) -> bool:
    """``x.unsqueeze(1)`` or ``x[:, None]``."""
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return any(isinstance(each, ast.Constant) and each.value is None for each in parts)
    return called_name(node) == "unsqueeze"
