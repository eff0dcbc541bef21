"""The same result computed twice in one statement."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

COSTLY = (
    "abs", "exp", "log", "sigmoid", "tanh", "softmax", "log_softmax", "softplus", "norm",
    "normalize", "matmul", "mm", "bmm", "einsum", "cdist", "cumsum", "sort", "argsort", "topk",
    "logsumexp", "sqrt", "pow", "cos", "sin", "relu", "gelu", "interpolate", "std", "var",
)  # fmt: skip


class ComputedTwice(Rule):
    code = "HST443"
    name = "computed-twice"
    why = "Each is a kernel of its own over the whole tensor, and keeps a copy for backward."
    instead = "Give the result a name and use it twice."
    effort = "a minute"
    nodes = (ast.BinOp,)
    calls = COSTLY
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def torus(a, b):
    return 2 * torch.min(torch.abs(a - b), 1 - torch.abs(a - b)).sum(-1)  # !

def entropy(logits):
    return -(logits.softmax(-1) * torch.log(logits.softmax(-1))).sum(-1)  # !
""",
        """\
import torch

class Bell(torch.nn.Module):
    def forward(self, x, mu, scale):
        peak = torch.exp(-((x - mu) ** 2) / scale) + (x - mu) ** 2  # !
        return peak
""",
        """\
import torch

class Bell(torch.nn.Module):
    def forward(self, x, y, mu, scale):
        half = x.size(1) // 2
        both = torch.cat([x[:, : half + 1], y[:, : half + 1]])
        first = (x - mu) ** 2 + (y - mu) ** 2
        gone = x - mu
        return torch.exp(x) + torch.exp(y), both, first, gone * torch.rand(3), torch.rand(3)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.BinOp | ast.Call = site.node
        if not isinstance(site.parent, ast.expr | ast.keyword) or not _is_simple(site.statement):
            return
        if isinstance(node, ast.BinOp) and not _is_difference(node):
            return
        said = look.source(node)
        if look.source(site.statement).count(said) < 2:
            return
        if not look.value(node, site).is_tensor or look.prepares_data(site):
            return
        same = [
            each
            for each in walk(site.statement)
            if each.__class__ is node.__class__ and look.source(each) == said
        ]
        if len(same) > 1 and same[0] is node:
            yield Found(site.statement, f"`{said}` is computed {len(same)} times")


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.AnnAssign)


def _is_difference(node: ast.BinOp) -> bool:
    """Of two names or more, as opposed to ``n + 1``."""
    sides = (node.left, node.right)
    return isinstance(node.op, ast.Sub | ast.Mult | ast.MatMult | ast.Div) and not any(
        isinstance(each, ast.Constant) for each in sides
    )
