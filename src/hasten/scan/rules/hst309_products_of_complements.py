"""Products with ``1 - x`` of which only the sums are wanted."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import siblings


class ProductsOfComplements(Rule):
    code = "HST309"
    name = "products-of-complements"
    why = (
        "Each is a tensor of full size, with another one for `1 - x`, and all are kept for the"
        " backward pass."
    )
    instead = "Get the sums from each other: `fp = x.sum() - tp`, `fn = y.sum() - tp`."
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    nodes = (ast.Assign,)
    assigned = (ast.BinOp,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Dice(torch.nn.Module):
    def forward(self, x, y):
        tp = x * y
        fp = x * (1 - y)  # !
        fn = (1 - x) * y  # !
        return tp.sum() / (fp.sum() + fn.sum())
""",
        """\
import torch

class Mix(torch.nn.Module):
    def forward(self, x, y, mask):
        x = x * (1 - mask)
        z = mask * y + (1 - mask) * x
        first = -10000.0 * (1 - mask)
        second = -10000.0 * (1 - y)
        return x + z, first, second
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not _is_product(site.node):
            return
        if sum(_is_product(each) for each in siblings(site)) > 1:
            yield Found(site.node, f"`{look.source(site.node.value)}` is a tensor of full size")


def _is_product(statement: ast.stmt) -> bool:
    """``a = x * (1 - y)``."""
    if not isinstance(statement, ast.Assign):
        return False
    value = statement.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return False
    sides = (value.left, value.right)
    return any(map(_is_complement, sides)) and not any(map(_is_number, sides))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _is_complement(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and any(is_constant(node.left, one) for one in (1, 1.0))
        and not isinstance(node.right, ast.Constant)
    )
