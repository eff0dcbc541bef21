"""A normalization written out in several kernels."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

NORMS = re.compile(r"(RMS|Layer|Rms|L2)_?Norm", re.IGNORECASE)


class HandWrittenNorm(Rule):
    code = "HST419"
    name = "hand-written-norm"
    why = "Each of its operations reads and writes the whole tensor; forward and backward."
    instead = (
        "Use `torch.nn.functional.rms_norm` or `layer_norm` (with the channels last), or compile"
        " the module."
    )
    risk = "rounding: sums are taken in another order"
    calls = ("normalize", "rsqrt", "var", "std")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.nn.functional as F

class RMSNorm(torch.nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=1) * self.g * self.scale  # !

class LayerNorm(torch.nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True, unbiased=False)  # !
        return (x - mean) / (var + self.eps).sqrt() * self.gamma + self.beta
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
        function = site.function
        owner = function.owner
        if owner is None or function.last_name not in ("forward", "_norm", "norm"):
            return
        if not NORMS.search(owner.name):
            return
        if called_name(site.node) == "normalize" and not isinstance(site.parent, ast.BinOp):
            return
        yield Found(site.node, f"`{owner.name}` is written out in several kernels")
