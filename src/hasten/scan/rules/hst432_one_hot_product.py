"""Rows looked up, or counted, by a product with a one-hot matrix."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, last_name, names, operands

PRODUCTS = ("matmul", "mm", "bmm")


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
        return rows, counts, more
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
        name = _one_hot(site)
        if not name:
            return
        for statement in following(site):
            for each in _uses(statement, name):
                yield Found(each, f"`{look.source(each)}` multiplies by a one-hot matrix")
            if isinstance(statement, ast.Assign) and name in names(statement.targets[0]):
                return


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
            case ast.BinOp(op=ast.MatMult()) if last_name(node.left) == name:
                yield node
            case ast.Call() if called_name(node) in PRODUCTS:
                if any(last_name(each) == name for each in operands(node)[:2]):
                    yield node
            case ast.Call() if called_name(node) == "sum" and _counts(node):
                if any(last_name(each) == name for each in operands(node)):
                    yield node


def _counts(call: ast.Call) -> bool:
    """``hot.sum(0)``."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg in ("dim", "axis"))]
    return any(is_constant(each, 0) for each in given)
