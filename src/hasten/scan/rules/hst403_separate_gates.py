"""The gates of a recurrent cell, each by products of its own."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, operands

PRODUCTS = ("matmul", "mm", "linear", "addmm")


class SeparateGates(Rule):
    code = "HST403"
    name = "separate-gates"
    why = (
        "Every gate multiplies the same input and state by a matrix of its own: many small"
        " products at every moment where one large one would do."
    )
    instead = (
        "Join the matrices and split the result with `chunk`, take the input's part out of the loop"
        " over time, or use `nn.GRU` or `nn.LSTM`."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    calls = ("sigmoid", "tanh")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Cell(torch.nn.Module):
    def forward(self, x, h):
        u = torch.sigmoid(torch.matmul(x, self.Wu) + torch.matmul(h, self.Uu) + self.bu)  # !
        r = torch.sigmoid(x @ self.Wr + h @ self.Ur + self.br)  # !
        new = torch.tanh(self.w_h(x) + r * self.u_h(h))  # !
        return (1 - u) * h + u * new
""",
        """\
import torch

class Additive(torch.nn.Module):
    def forward(self, q, k):
        return self.v(torch.tanh(self.w(q) + self.u(k)))

class Joined(torch.nn.Module):
    def forward(self, x, h):
        r, u, n = (self.w(x) + self.u(h)).chunk(3, dim=1)
        return torch.sigmoid(r) * torch.tanh(n) + torch.sigmoid(u)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not _is_gate(site.node):
            return
        gates = [each for each in site.function.calls if _is_gate(each.node)]
        if len(gates) > 1 and any(called_name(each.node) == "sigmoid" for each in gates):
            yield Found(site.node, "a gate has products of its own")


def _is_gate(call: ast.Call) -> bool:
    """``sigmoid(x @ W + h @ U)``."""
    if called_name(call) not in ("sigmoid", "tanh"):
        return False
    return any(_products(each) >= 2 for each in operands(call))


def _products(node: ast.expr) -> int:
    """In a sum of terms, how many hold a product with a weight."""
    match node:
        case ast.BinOp(op=ast.Add()):
            return _products(node.left) + _products(node.right)
        case ast.BinOp(op=ast.Mult()):
            return max(_products(node.left), _products(node.right))
        case ast.BinOp(op=ast.MatMult()):
            return 1
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"))):
            return int(len(node.args) == 1)
        case ast.Call():
            return int(called_name(node) in PRODUCTS and last_name(node.func) in PRODUCTS)
    return 0
