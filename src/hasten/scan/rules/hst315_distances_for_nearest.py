"""All squared distances, written out as squares and products, to find the nearest."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name, operands

PRODUCTS = ("matmul", "mm", "bmm", "einsum")


class DistancesForNearest(Rule):
    code = "HST315"
    name = "distances-for-nearest"
    why = (
        "Each term of the sum is a tensor of rows by candidates of its own; the square of the row"
        " itself does not change which candidate is nearest."
    )
    instead = (
        "Use `torch.addmm` of the squares of the candidates and the product, or `torch.cdist`."
    )
    risk = "rounding: sums are taken in another order"
    calls = ("argmin", "argmax", "min", "max", "topk")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Quantizer(torch.nn.Module):
    def forward(self, z):
        distances = (
            z.pow(2).sum(1, keepdim=True)  # !
            + self.table.pow(2).sum(1)
            - 2 * torch.matmul(z, self.table.t())
        )
        near = torch.argmin(distances, dim=1)
        far = (z**2).sum(1, keepdim=True) - 2 * z @ self.table.T + (self.table**2).sum(1)  # !
        return near, far.max(-1)
""",
        """\
import torch

class Quantizer(torch.nn.Module):
    def forward(self, z):
        distances = torch.addmm(self.squares, z, self.table.t(), alpha=-2)
        scores = z @ self.table.t() - 2 * self.bias
        return distances.argmin(1), scores.max(-1)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for each in operands(site.node):
            made = last_given(each, site.function)
            if isinstance(made, ast.BinOp) and _is_distance(made):
                yield Found(made, f"`{last_name(each)}` is made of whole tensors")
                return


def _is_distance(node: ast.BinOp) -> bool:
    """``x^2 + y^2 - 2 x y``."""
    terms = list(_terms(node))
    return len(terms) > 2 and any(_is_doubled_product(each) for each in terms)


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_doubled_product(node: ast.expr) -> bool:
    """``2 * x @ y.t()`` and ``2 * torch.mm(x, y)``."""
    parts = list(_parts(node))
    return any(is_constant(each, 2) or is_constant(each, 2.0) for each in parts) and any(
        called_name(each) in PRODUCTS or _is_matrix_product(each) for each in parts
    )


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Of a product, and those of its factors."""
    yield node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, ast.UnaryOp):
        yield from _parts(node.operand)


def _is_matrix_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
