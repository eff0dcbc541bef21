"""Rows looked up, or counted, by a product with a one-hot matrix."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, last_name, names, operands

PRODUCTS = ("matmul", "mm", "bmm", "einsum")


class OneHotProduct(Rule):
    code = "HST432"
    name = "one-hot-product"
    why = "It multiplies a whole matrix, nearly all of it zeros, to pick one row for each index."
    instead = (
        "Index the table (`table[index]`, `F.embedding`); count with `torch.bincount`, and add up"
        " rows with `index_add_`."
    )
    risk = "rounding: sums are taken in another order"
    calls = ("one_hot", "scatter_")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.nn.functional as F

class Quantizer(torch.nn.Module):
    def forward(self, z, index):
        hot = F.one_hot(index, self.size).float()
        rows = hot @ self.table  # !
        counts = torch.sum(hot, dim=0)  # !
        spread = torch.zeros(len(index), self.size, device=z.device)
        spread.scatter_(1, index, 1)
        more = torch.matmul(spread, self.table.weight).view(z.shape)  # !
        picked = torch.einsum("bc,cd->bd", hot, self.table)  # !
        sums = hot.t() @ z  # !
        other = torch.matmul(z.T, spread)  # !
        shares = spread.mean(dim=0)  # !
        return rows, counts, more, picked, sums, other, shares

    def rows(self, index):
        return F.one_hot(index, self.size).float() @ self.table  # !
""",
        """\
import torch
import torch.nn.functional as F

class Loss(torch.nn.Module):
    def forward(self, x, index):
        hot = F.one_hot(index, 10).float()
        x.scatter_(1, index, 0.5)
        return (x * hot).sum(1), x @ self.table, self.table[index], hot.sum()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        product = _product_of(site)
        if product is not None:
            yield Found(product, f"`{look.source(product)}` multiplies by a one-hot matrix")
            return
        name = _one_hot(site)
        if not name:
            return
        for statement in following(site):
            for each in _uses(statement, name):
                yield Found(each, f"`{look.source(each)}` multiplies by a one-hot matrix")
            if isinstance(statement, ast.Assign) and name in names(statement.targets[0]):
                return


def _product_of(site: Site) -> ast.expr | None:
    """``F.one_hot(index, n).float() @ table``, without a name in between."""
    if site.called != "one_hot":
        return None
    for each in walk(site.statement):
        match each:
            case ast.BinOp(op=ast.MatMult(), left=side) if _converted(side) is site.node:
                return each
            case ast.BinOp(op=ast.MatMult(), right=side) if _converted(side) is site.node:
                return each
            case ast.Call() if called_name(each) in PRODUCTS:
                if any(_converted(side) is site.node for side in operands(each)):
                    return each
    return None


def _converted(node: ast.expr) -> ast.expr:
    """``F.one_hot(x)`` of ``F.one_hot(x).float()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if called_name(node) not in ("float", "to", "type", "type_as", "double", "half", "t"):
            break
        node = node.func.value
    return node


def _one_hot(site: Site) -> str:
    """The name of the matrix."""
    call: ast.Call = site.node
    if called_name(call) == "one_hot":
        statement = site.statement
        return last_name(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    filled = len(call.args) > 2 and any(is_constant(call.args[2], one) for one in (1, 1.0))
    return last_name(receiver(call)) if filled else ""


def _uses(statement: ast.stmt, name: str) -> Iterator[ast.expr]:
    for node in walk(statement):
        match node:
            case ast.BinOp(op=ast.MatMult()):
                if any(_turned(each) == name for each in (node.left, node.right)):
                    yield node
            case ast.Call() if called_name(node) in PRODUCTS:
                if any(_turned(each) == name for each in operands(node)):
                    yield node
            case ast.Call() if called_name(node) in ("sum", "mean") and _counts(node):
                if any(last_name(each) == name for each in operands(node)):
                    yield node


def _turned(node: ast.expr) -> str:
    """The name of what may be transposed: ``hot`` of ``hot.t()`` and ``hot.T``."""
    match node:
        case ast.Attribute(value=held, attr="T" | "mT"):
            return last_name(held)
        case ast.Call(func=ast.Attribute(value=held, attr="t" | "transpose" | "permute")):
            return last_name(held)
    return last_name(node)


def _counts(call: ast.Call) -> bool:
    """``hot.sum(0)``."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg in ("dim", "axis"))]
    return any(is_constant(each, 0) for each in given)
