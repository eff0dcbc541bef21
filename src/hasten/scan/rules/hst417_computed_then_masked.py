"""A block that runs for samples whose result a mask throws away."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class ComputedThenMasked(Rule):
    code = "HST417"
    name = "computed-then-masked"
    why = (
        "The layer runs for the whole batch, and what it gives for some samples is multiplied by 0."
    )
    instead = "Run the layer on the samples that are kept (`x[kept]`), or draw once for the batch."
    risk = "draws of the random generator may be used in another order"
    effort = "an hour"
    nodes = (ast.Assign,)
    assigned = (ast.BinOp,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        for block in self.blocks:
            mask = (torch.rand(len(x), 1) < self.rate).to(x.dtype)
            x = x * mask + block(x) * (1 - mask)  # !
        return x
""",
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, mask):
        y = x * mask + torch.randn_like(x) * (1 - mask)
        z = x * mask + y * (1 - mask)
        return y + z
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        total = site.node.value
        if not isinstance(total, ast.BinOp) or not isinstance(total.op, ast.Add):
            return
        for kept, run in ((total.left, total.right), (total.right, total.left)):
            mask = _mask_of(run)
            if mask and _is_times(kept, mask):
                yield Found(site.node, f"all samples are computed, then some dropped by `{mask}`")


def _mask_of(node: ast.expr) -> str:
    """``m`` of ``layer(x) * (1 - m)``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return ""
    for called, rest in ((node.left, node.right), (node.right, node.left)):
        is_layer = isinstance(called, ast.Call) and (
            isinstance(called.func, ast.Name) or last_name(called.func.value) == "self"  # type: ignore[attr-defined]
        )
        if is_layer and isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Sub):
            return last_name(rest.right)
    return ""


def _is_times(node: ast.expr, mask: str) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and mask in (last_name(node.left), last_name(node.right))
    )
