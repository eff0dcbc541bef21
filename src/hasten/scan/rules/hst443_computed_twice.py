"""The same result computed twice, in one statement or in two."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.again import gives_the_same, is_written_between, same_above
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.vocabulary import words

COSTLY = (
    "abs", "exp", "log", "sigmoid", "tanh", "softmax", "log_softmax", "softplus", "norm",
    "normalize", "matmul", "mm", "bmm", "einsum", "cdist", "cumsum", "sort", "argsort", "topk",
    "logsumexp", "sqrt", "pow", "cos", "sin", "relu", "gelu", "interpolate", "std", "var",
)  # fmt: skip
HEAVY = words(
    "softmax log_softmax normalize matmul mm bmm einsum cdist sort argsort topk logsumexp"
    " interpolate std var"
)
"""Of these one is worth a name even where the second stands some lines below."""
OUTER = ("sum", "mean", "repeat")
"""What ends a row of calls."""
MANY = 3
"""Calls within one another that are worth a name."""


class ComputedTwice(Rule):
    code = "HST443"
    name = "computed-twice"
    why = "Each is a kernel of its own over the whole tensor, and keeps a copy for backward."
    instead = "Give the result a name and use it twice."
    effort = "a minute"
    nodes = (ast.BinOp,)
    calls = (*COSTLY, *OUTER)
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
        wide = (x * self.width - y) / (self.width * self.width)
        rate = (half - self.shift) * x + (half - self.shift) * y
        return torch.exp(x) + torch.exp(y), both, first, gone * torch.rand(3), wide, rate
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, y):
        scores = torch.softmax(x, dim=-1)
        kept = scores[:, 0]
        if self.wide:
            entropy = -(torch.softmax(x, dim=-1) * y).sum()  # !
            kept = kept + entropy
        power = torch.exp(y)
        y = y + 1
        other = torch.exp(y)
        if self.sharp:
            near = torch.cdist(x, y)
        else:
            near = torch.cdist(x, y)
        y.add_(1)
        norm = x.std(dim=-1)
        x.mul_(2)
        part = self.loss(y / torch.unsqueeze(torch.sum(y, dim=-1), -1).repeat(1, 1, 8), x)
        more = self.loss(x, y / torch.unsqueeze(torch.sum(y, dim=-1), -1).repeat(1, 1, 8))  # !
        return kept, power, other, near, norm, x.std(dim=-1), part, more
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.BinOp | ast.Call = site.node
        if isinstance(node, ast.Call) and _is_again(site, look):
            yield Found(node, f"`{look.source(node)}` was computed above")
            return
        if not isinstance(site.parent, ast.expr | ast.keyword) or not _is_simple(site.statement):
            return
        if isinstance(node, ast.Call) and called_name(node) in OUTER:
            return
        if isinstance(node, ast.BinOp) and not (
            _is_difference(node) and _is_of_tensors(node, site, look)
        ):
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


def _is_again(site: Site, look: Look) -> bool:
    """Whether a statement above has computed the same of the same."""
    if site.called not in HEAVY and not _is_of_many(site.node):
        return False
    for each in same_above(site.node, site, look):
        if each.statement is site.statement or look.without_grad(each) != look.without_grad(site):
            continue
        if not look.value(site.node, site).is_tensor or look.prepares_data(site):
            return False
        if gives_the_same(each, site) and not is_written_between(each, site, look):
            return True
    return False


def _is_of_many(call: ast.Call) -> bool:
    return sum(isinstance(each, ast.Call) for each in walk(call)) >= MANY


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.AnnAssign)


def _is_of_tensors(node: ast.BinOp, site: Site, look: Look) -> bool:
    """Whether both sides are known to be tensors: what is small is not worth a name."""
    return all(look.value(each, site).is_tensor for each in (node.left, node.right))


def _is_difference(node: ast.BinOp) -> bool:
    """Of two names or more, as opposed to ``n + 1``."""
    sides = (node.left, node.right)
    return isinstance(node.op, ast.Sub | ast.Mult | ast.MatMult | ast.Div) and not any(
        isinstance(each, ast.Constant) for each in sides
    )
