"""Activations written out where torch has them in one kernel."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, receiver
from hasten.scan.models import MODULES
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name, operands, root_name

LOGS = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}


class UnfusedActivation(Rule):
    code = "HST420"
    name = "unfused-activation"
    why = "Each step of it is a kernel that reads and writes the whole tensor."
    instead = (
        "`F.glu`, `F.silu`, `F.gelu`, `F.mish`, `F.softplus`, `F.logsigmoid`, `F.log_softmax` and"
        " `torch.logsumexp` do it in one, and more exactly."
    )
    risk = "rounding: the fused forms are more exact"
    effort = "a minute"
    calls = ("sigmoid", "log", "log1p", "erf", "tanh", "binary_cross_entropy")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Gated(torch.nn.Module):
    def forward(self, x, y):
        gated = torch.mul(x[:, : self.size], torch.sigmoid(x[:, self.size :]))  # !
        swish = y * torch.sigmoid(y)  # !
        loss = -torch.log(torch.softmax(y, dim=-1))  # !
        a, b = x.chunk(2, dim=1)
        gated = gated + a * torch.sigmoid(b)  # !
        probs = y.softmax(-1)
        loss = loss - (probs * torch.log(probs + 1e-8)).sum()  # !
        return gated, swish, loss - y.sigmoid().log()  # !
""",
        """\
import math
import torch
import torch.nn.functional as F

class GELU(torch.nn.Module):
    def forward(self, x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))  # !

def new_gelu(x: torch.Tensor):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))
    near = 0.5 * x * (1 + torch.tanh(inner))  # !
    return near + x * F.softplus(x).tanh() + x * torch.tanh(F.softplus(x))  # !

class Scale(torch.nn.Module):
    def forward(self, x, y):
        sigma = torch.log1p(torch.exp(self.rho))  # !
        other = torch.log(1 + torch.exp(x))  # !
        total = torch.log(torch.exp(x).sum(-1)) + x.exp().sum(dim=1).log()  # !
        return sigma, other, total, F.binary_cross_entropy(torch.sigmoid(x), y)  # !
""",
        """\
import torch
import torch.nn.functional as F

class Gated(torch.nn.Module):
    def forward(self, x, gate, p, y):
        moved = x * torch.tanh(gate) * (1 + torch.erf(gate)) + torch.log(1 + x)
        loss = F.binary_cross_entropy(p, y) + torch.log(x.exp() + gate.exp())
        return F.glu(x) * torch.sigmoid(gate) + torch.log(x) * F.log_softmax(x, dim=-1) + loss
""",
        """\
import math
import torch

class Normal(torch.nn.Module):
    def forward(self, x, z):
        cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
        return cdf, 0.5 * (1 + torch.tanh(x)), 0.5 * z * (1 + torch.tanh(x))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        name, held = called_name(call), _operand(call)
        fused = ""
        if name in ("log", "log1p"):
            fused = _fused_log(name, held) or _log_of_given(name, held, site)
        elif name in ("erf", "tanh"):
            fused = _fused_half(site, held)
        elif name == "binary_cross_entropy":
            made = last_given(held, site.function) or held
            fused = f"{name}_with_logits" if called_name(made) == "sigmoid" else ""
        elif any(
            _is_other_half(each, held)
            or _is_other_chunk(each, held, site)
            or ast.dump(each) == ast.dump(held or call)
            for each in _factors(site.parent, call)
        ):
            fused = "silu or glu"
        if fused and not look.dotted(call.func).startswith(("numpy.", "math.")):
            yield Found(call, f"`{look.source(call)}` is part of what `{fused}` does in one kernel")


def _fused_log(name: str, held: ast.expr | None) -> str:
    """The function that a logarithm of softmax, of sigmoid, of ``1 + exp(x)`` or of a sum of
    exponentials is."""
    match held:
        case ast.BinOp(op=ast.Add(), left=left, right=right) if name == "log":
            for one, other in ((left, right), (right, left)):
                if _is_one(one) and called_name(other) == "exp":
                    return "softplus"
            return ""
        case ast.Call() if name == "log1p":
            return "softplus" if called_name(held) == "exp" else ""
        case ast.Call() if called_name(held) == "sum":
            return "logsumexp" if called_name(_operand(held)) == "exp" else ""
    return LOGS.get(called_name(held), "")


def _log_of_given(name: str, held: ast.expr | None, site: Site) -> str:
    """``log(probs + 1e-8)`` after ``probs = softmax(x)``."""
    if isinstance(held, ast.BinOp) and isinstance(held.op, ast.Add) and _is_tiny(held.right):
        held = held.left
    made = last_given(held, site.function) if name == "log" else None
    return LOGS.get(called_name(made), "")


def _is_tiny(node: ast.expr) -> bool:
    """``1e-8`` and ``self.eps``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return node.value < TINY
    return "eps" in last_name(node).lower()


TINY = 1e-3


def _fused_half(site: Site, held: ast.expr | None) -> str:
    """``1 + erf(x / sqrt(2))`` and the same by ``tanh``, each times a half; ``tanh(softplus(x))``
    times what it is taken of."""
    if called_name(held) == "softplus":
        given = _operand(held)
        alike = (
            ast.dump(each) == ast.dump(given) for each in _factors(site.parent, site.node) if given
        )
        return "mish" if any(alike) else ""
    match site.parent:
        case ast.BinOp(op=ast.Add(), left=left, right=right) if _is_one(left) or _is_one(right):
            factors = _product(site.parent, site.statement)
            weighs = any(_is_within(each, held, site) for each in factors)
            return "gelu" if weighs and any(is_constant(each, 0.5) for each in factors) else ""
    return ""


def _product(factor: ast.AST, statement: ast.stmt) -> list[ast.expr]:
    """All factors of the product that one of them stands in."""
    for each in walk(statement):
        factors, stack = [], [each]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                stack += [node.left, node.right]
            elif isinstance(node, ast.expr):
                factors.append(node)
        if len(factors) > 1 and any(node is factor for node in factors):
            return factors
    return []


def _is_within(factor: ast.expr, held: ast.expr | None, site: Site) -> bool:
    """Whether what is held is computed of it: ``x`` of ``x / sqrt(2)``, or of a name for that."""
    if not isinstance(factor, ast.Name | ast.Attribute | ast.Subscript):
        return False
    sought = ast.dump(factor)
    return any(
        ast.dump(each) == sought
        for whole in (held, last_given(held, site.function))
        if whole is not None
        for each in walk(whole)
    )


def _is_one(node: ast.expr) -> bool:
    return is_constant(node, 1) or is_constant(node, 1.0)


def _operand(call: ast.expr | None) -> ast.expr | None:
    """``x`` of ``torch.log(x)`` and of ``x.log()``; of a sum without its dims."""
    if not isinstance(call, ast.Call):
        return None
    held = receiver(call)
    if held is None or last_name(held) in MODULES:
        return call.args[0] if call.args else None
    return held


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


def _is_other_chunk(node: ast.expr, held: ast.expr | None, site: Site) -> bool:
    """``a`` beside ``b`` after ``a, b = x.chunk(2, dim=1)``."""
    made = last_given(node, site.function)
    return (
        made is not None
        and called_name(made) == "chunk"
        and isinstance(held, ast.Name)
        and made is last_given(held, site.function)
    )


def _is_other_half(node: ast.expr, held: ast.expr | None) -> bool:
    """``x[:, :n]`` beside ``x[:, n:]``."""
    if not isinstance(node, ast.Subscript) or not isinstance(held, ast.Subscript):
        return False
    ours, theirs = root_name(node), root_name(held)
    return ours is not None and theirs is not None and ours.id == theirs.id
