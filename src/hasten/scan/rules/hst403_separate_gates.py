"""The gates of a recurrent cell, each by products of its own."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name, names, operands

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

class Joined(torch.nn.Module):
    def forward(self, x, h):
        both = torch.cat((x, h), dim=1)
        z = torch.sigmoid(self.update_gate(both))  # !
        r = torch.sigmoid(self.reset_gate(both))  # !
        new = torch.tanh(self.out_gate(torch.cat((x, r * h), dim=1)))  # !
        keep = self.x_keep(x) + self.h_keep(h)
        return (1 - z) * h + z * new * keep.sigmoid()  # !
""",
        """\
import torch

class Additive(torch.nn.Module):
    def forward(self, q, k):
        return self.v(torch.tanh(self.w(q) + self.u(k)))

class Views(torch.nn.Module):
    def forward(self, x, y):
        both = torch.cat((x, y), dim=1)
        return torch.sigmoid(self.first(both)) * torch.sigmoid(self.second(both))

class Split(torch.nn.Module):
    def forward(self, x, h):
        r, u, n = (self.w(x) + self.u(h)).chunk(3, dim=1)
        return torch.sigmoid(r) * torch.tanh(n) + torch.sigmoid(u)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        function = site.function
        if not _is_gate(site.node, function):
            return
        gates = [each for each in function.calls if _is_gate(each.node, function)]
        if len(gates) > 1 and any(each.called == "sigmoid" for each in gates):
            yield Found(site.node, "a gate has products of its own")


def _is_gate(call: ast.Call, function: Function) -> bool:
    """``sigmoid(x @ W + h @ U)``, and ``sigmoid(layer(both))`` where both are joined."""
    if called_name(call) not in ("sigmoid", "tanh"):
        return False
    for each in operands(call):
        made = last_given(each, function) or each
        if _products(made) >= 2 or _is_of_joined(made, function):
            return True
    return False


def _is_of_joined(node: ast.expr, function: Function) -> bool:
    """``self.layer(both)`` after ``both = torch.cat((x, h), 1)``, of an input and a state."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[ast.expr() as given]):
            joined = last_given(given, function) or given
            return called_name(joined) in ("cat", "concat") and any(
                STATE.search(name) for name in names(joined)
            )
    return False


STATE = re.compile(r"^(h|hx|h_\w+|\w*hidden\w*|\w*state\w*|h_?prev|prev_h|h\d)$")


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
