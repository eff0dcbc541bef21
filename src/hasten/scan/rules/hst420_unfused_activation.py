"""Activations written out where torch has them in one kernel."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import operands, root_name

LOGS = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}


class UnfusedActivation(Rule):
    code = "HST420"
    name = "unfused-activation"
    why = "Each step of it is a kernel that reads and writes the whole tensor."
    instead = (
        "`F.glu`, `F.silu`, `F.logsigmoid` and `F.log_softmax` do it in one, and more exactly."
    )
    risk = "rounding: the fused forms are more exact"
    effort = "a minute"
    calls = ("sigmoid", "log")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Gated(torch.nn.Module):
    def forward(self, x, y):
        gated = torch.mul(x[:, : self.size], torch.sigmoid(x[:, self.size :]))  # !
        swish = y * torch.sigmoid(y)  # !
        loss = -torch.log(torch.softmax(y, dim=-1))  # !
        return gated, swish, loss - y.sigmoid().log()  # !
""",
        """\
import torch
import torch.nn.functional as F

class Gated(torch.nn.Module):
    def forward(self, x, gate):
        return F.glu(x) * torch.sigmoid(gate) + torch.log(x) * F.log_softmax(x, dim=-1)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        held = _operand(call, look)
        if called_name(call) == "log":
            if called_name(held) in LOGS:
                inner = called_name(held)
                yield Found(call, f"the logarithm of `{inner}` has a function: `{LOGS[inner]}`")
            return
        for other in _factors(site.parent, call):
            if _is_other_half(other, held) or ast.dump(other) == ast.dump(held or call):
                yield Found(call, f"`{look.source(site.parent)}` is one function of torch")


def _operand(call: ast.Call, look: Look) -> ast.expr | None:
    """``x`` of ``torch.log(x)`` and of ``x.log()``."""
    if call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _factors(parent: ast.AST, call: ast.Call) -> list[ast.expr]:
    """What the call is multiplied with."""
    is_product = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
    if is_product or called_name(parent) in ("mul", "multiply"):
        return [
            each
            for each in operands(parent)
            if each is not call and not (isinstance(each, ast.Name) and each.id == "torch")
        ]
    return []


def _is_other_half(node: ast.expr, held: ast.expr | None) -> bool:
    """``x[:, :n]`` beside ``x[:, n:]``."""
    if not isinstance(node, ast.Subscript) or not isinstance(held, ast.Subscript):
        return False
    ours, theirs = root_name(node), root_name(held)
    return ours is not None and theirs is not None and ours.id == theirs.id
