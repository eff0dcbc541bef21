"""A matrix that is made, or inverted, only to be multiplied with."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, last_name, operands

DIAGONALS = ("diag", "diag_embed", "diagflat")
INVERSES = ("inverse", "inv")
PRODUCTS = ("matmul", "mm", "bmm", "einsum")


class NeedlessMatrix(Rule):
    code = "HST447"
    name = "needless-matrix"
    why = (
        "A diagonal matrix costs a full product of mostly zeros, the diagonal or the trace of a"
        " product needs a small part of it, and an inverse takes longer than solving and is less"
        " exact."
    )
    instead = (
        "`d[:, None] * x` for `diag(d) @ x`, `(a * b).sum(-1)` for the diagonal of `a @ b.T`,"
        " `torch.linalg.solve(a, b)` for `inverse(a) @ b`."
    )
    risk = "rounding: sums are taken in another order"
    calls = (*DIAGONALS, *INVERSES, "trace", "diagonal")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x, d, a, b):
        scaled = torch.diag(d) @ x  # !
        each = torch.matmul(torch.diag_embed(d), x)  # !
        solved = torch.inverse(a) @ b  # !
        other = torch.matmul(torch.linalg.inv(a), b)  # !
        mixed = torch.mm(a, torch.diag(d)), torch.diag(a @ a.t())  # !
        turned = a.inverse() @ b + torch.linalg.inv(b).matmul(a)  # !
        inverse = torch.inverse(b)  # !
        turned = turned + inverse @ a
        return scaled, each, solved, other, torch.trace(a @ b), torch.diag(a.mm(b)), mixed  # !
""",
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x, d, a):
        scaled = d[:, None] * x
        inverse = torch.inverse(a)
        x = inverse @ x
        scale = self.scaler.inverse(x) @ x
        points = torch.inverse(self.camera_to_world) @ x
        return scaled, torch.diag(a), torch.trace(a), inverse, scale, points, x @ x.t()
""",
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x, w, a, v):
        scales = torch.diag_embed(x @ w), torch.diagflat(x @ w)
        return scales, torch.diag(a @ v), torch.diag(a.mv(v)), torch.diag(torch.mv(a, v))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        name = called_name(call)
        if not look.value(call, site).is_tensor or look.prepares_data(site):
            return
        if _takes_diagonal(call):
            yield Found(call, f"`{look.source(call)}` needs a small part of the product")
        elif name in DIAGONALS and _is_multiplied(site):
            yield Found(call, f"`{look.source(call)}` is multiplied with as a whole matrix")
        elif name in INVERSES and _is_inverse(call, look) and _is_multiplied(site):
            yield Found(call, f"`{look.source(call)}` is made only to be multiplied with")


SMALL = re.compile(r"pose|world|cam|c2w|w2c|transf|trinsic|rot|homogr|affin|lidar|ego|^[hkt]$")
"""What matrices of three or four rows are called, which turn many points."""


def _is_inverse(call: ast.Call, look: Look) -> bool:
    """Of a matrix: ``torch.inverse(a)``, ``a.inverse()``; that of a transform is given one."""
    if any(SMALL.search(each.lower()) for each in names_in(call)):
        return False
    return look.is_of_torch(call) or not (call.args or call.keywords)


def _is_multiplied(site: Site) -> bool:
    """There and then, or under a name that is read once."""
    if _is_product(site.parent):
        return True
    if isinstance(site.parent, ast.Attribute):
        return site.parent.attr in PRODUCTS
    statement = site.statement
    if not isinstance(statement, ast.Assign) or statement.value is not site.node:
        return False
    name = last_name(statement.targets[0])
    below = [each for statement in following(site) for each in walk(statement)]
    read = sum(isinstance(each, ast.Name) and each.id == name for each in below)
    in_products = [each for each in below if _is_product(each) and _multiplies(each, name)]
    return read == 1 and bool(in_products)


def _multiplies(product: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in operands(product))


def _takes_diagonal(call: ast.Call) -> bool:
    """Of a product; ``diag`` makes a matrix of a vector, which most products may be."""
    taken = operands(call)[:2]
    if called_name(call) == "diag":
        return any(map(_is_matrix, taken))
    return called_name(call) in ("trace", "diagonal") and any(map(_is_product, taken))


def _is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return called_name(node) in PRODUCTS


def _is_matrix(node: ast.AST) -> bool:
    """Whether it is surely a product of two matrices: ``a.mm(b)``, ``a @ a.T``."""
    match node:
        case ast.BinOp(
            op=ast.MatMult(),
            left=left,
            right=ast.Attribute(value=right, attr="T")
            | ast.Call(func=ast.Attribute(value=right, attr="t"), args=[]),
        ):
            return ast.dump(left) == ast.dump(right)
    return called_name(node) == "mm"
