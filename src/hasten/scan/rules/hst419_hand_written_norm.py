"""A normalization written out in several kernels."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, keyword
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule

NORMS = re.compile(r"(?i:norm(?!al))|(^|_)ln(\d|_|$)|(?<![A-Z])LN(?=\d|_|[A-Z][a-z]|$)")
OTHERS = re.compile(r"weight|spectral|grad|clip|denorm|unnorm|score|loss")
"""What is normalized there is no activation."""
REDUCTIONS = ("mean", "var", "std", "var_mean", "std_mean")
LENGTHS = ("norm", "vector_norm")
ROOTS = ("rsqrt", "sqrt", "std", "std_mean")


class HandWrittenNorm(Rule):
    code = "HST419"
    name = "hand-written-norm"
    why = "Each of its operations reads and writes the whole tensor; forward and backward."
    instead = (
        "Use `torch.nn.functional.rms_norm` or `layer_norm` (with the channels last), or compile"
        " the module."
    )
    risk = "rounding: sums are taken in another order"
    calls = ("normalize", "rsqrt", "sqrt", *LENGTHS, *REDUCTIONS)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.nn.functional as F

class RMSNorm(torch.nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=1) * self.g * self.scale  # !

class LayerNorm(torch.nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)  # !
        var = x.var(-1, keepdim=True, unbiased=False)  # !
        return (x - mean) / (var + self.eps).sqrt() * self.gamma + self.beta  # !
""",
        """\
import torch
from torch import nn

def channel_norm(x, eps: float = 1e-6):
    u = x.mean(1, keepdim=True)  # !
    s = (x - u).pow(2).mean(1, keepdim=True)  # !
    return (x - u) / torch.sqrt(s + eps)  # !

class T5LayerNorm(nn.Module):
    def forward(self, hidden):
        variance = hidden.float().pow(2).mean(-1, keepdim=True)  # !
        return self.weight * hidden * torch.rsqrt(variance + self.eps)  # !

class ScaleNorm(nn.Module):
    def forward(self, x):
        size = torch.norm(x, dim=-1, keepdim=True).clamp(min=self.eps)  # !
        return x / size * self.g

class GlobLN(nn.Module):
    def forward(self, x):
        m, v = torch.mean(x, dim=(1, 2)), torch.var(x, dim=(1, 2))  # !
        return self.gain((x - m) / (v + 1e-8).sqrt())  # !
""",
        """\
import torch
from torch import nn

class Advantages:
    def normalize(self, x):
        return (x - x.mean()) / (x.std() + 1e-8)

class SpectralNorm(nn.Module):
    def forward(self, w):
        return w / w.pow(2).mean(1).sqrt()

class InstanceNorm(nn.Module):
    def forward(self, x):
        return self.inner(x) * x.mean(-1, keepdim=True)

def grad_norm(grads):
    return grads.square().mean(1).sqrt()

def lnlike(x):
    return (x - x.mean(1)) / torch.sqrt(x.var(1))

def lnprob(x):
    return (x - x.mean(1)) / torch.sqrt(x.var(1))

def kiln(x):
    return (x - x.mean(1)) / torch.sqrt(x.var(1))
""",
        """\
import torch
import torch.nn.functional as F

class Similarity(torch.nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=1) @ self.table.t()

class RMSNorm(torch.nn.Module):
    def forward(self, x):
        return F.rms_norm(x, self.shape, self.weight)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        name = _norm(site.function)
        if not name:
            return
        if site.called == "normalize":
            found = isinstance(site.parent, ast.BinOp)
        elif site.called in LENGTHS:
            found = keyword(site.node, "dim") is not None and _divides(site.function)
        else:
            found = _is_part(site.node, site.function)
        if found and not look.dotted(site.node.func).startswith(("numpy.", "math.")):
            yield Found(site.node, f"`{name}` is written out in several kernels")


def _divides(function: Function) -> bool:
    """Whether what it gives back is divided by something and scaled."""
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div)
        for given in function.returns
        for each in walk(given)
    )


def _norm(function: Function) -> str:
    """The class or function that normalizes activations; empty where it is none."""
    owner, name = function.owner, function.last_name
    if owner is not None and name in ("forward", "__call__", "_norm", "norm"):
        name = owner.name
    return name if NORMS.search(name) and not OTHERS.search(name.lower()) else ""


def _is_part(call: ast.Call, function: Function) -> bool:
    """Whether it is the mean or the root of a function that has both."""
    if called_name(call) in REDUCTIONS and not _has_dims(call):
        return False
    calls = [each.node for each in function.calls]
    return any(called_name(each) in ROOTS for each in calls) and any(
        called_name(each) in REDUCTIONS and _has_dims(each) for each in calls
    )


def _has_dims(call: ast.Call) -> bool:
    """``x.mean(-1)`` and ``torch.mean(x, dim=1)``, not ``x.mean()``."""
    return bool(call.keywords) or any(
        isinstance(each, ast.Constant | ast.UnaryOp | ast.Tuple) for each in call.args
    )
