"""A kernel for every pair of features."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, called_name, is_constant
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, names


class PairByPair(Rule):
    code = "HST429"
    name = "pair-by-pair"
    why = "With n features there are n * (n - 1) / 2 pairs, each with kernels of its own."
    instead = "Stack the features and pick both sides by index: `x[:, rows] * x[:, columns]`."
    calls = ("combinations", "combinations_with_replacement", "permutations")
    nodes = (ast.For, ast.ListComp, ast.GeneratorExp)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import itertools
import torch

class Interaction(torch.nn.Module):
    def forward(self, parts):
        return torch.cat([a * b for a, b in itertools.combinations(parts, 2)], dim=1)  # !

class Products(torch.nn.Module):
    def forward(self, x):
        found = []
        for i in range(self.count):
            for j in range(i + 1, self.count):  # !
                found.append(x[:, i] * x[:, j])
        return found, [torch.dot(x[i], x[j]) for i in range(9) for j in range(i + 1, 9)]  # !

class BestOrder(torch.nn.Module):
    def forward(self, guess, truth):
        losses = []
        for order in itertools.permutations(range(self.count)):  # !
            losses.append(self.loss(guess[:, list(order)], truth))
        return torch.stack(losses).min(dim=0).values
""",
        """\
import itertools
import torch

class Interaction(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.pairs = list(itertools.combinations(range(n), 2))

    def forward(self, x):
        for i in range(self.depth):
            for j in range(i + 1, self.depth):
                self.seen.append((i, j))
        orders = torch.tensor(list(itertools.permutations(range(3))))
        return x[:, self.rows] * x[:, self.columns], orders
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not isinstance(site.node, ast.Call):
            if _goes_over_pairs(site.node, site, look):
                yield Found(site.node, "each pair is worked on by itself")
            return
        node = site.parent
        if not isinstance(node, ast.For | ast.ListComp | ast.GeneratorExp):
            return
        if site.called == "permutations":
            if _computes(node):
                yield Found(site.node, "each order is worked on by itself")
        elif is_constant(argument(site.node, 1, "r"), 2):
            yield Found(site.node, "each pair is worked on by itself")


def _goes_over_pairs(
    node: ast.For | ast.ListComp | ast.GeneratorExp, site: Site, look: Look
) -> bool:
    """``for i in range(n): for j in range(i + 1, n): x[i] * x[j]``, of tensors."""
    if isinstance(node, ast.For):
        outer = site.loop.node if site.loop is not None else None
        heads: list[ast.For | ast.comprehension] = (
            [outer, node] if isinstance(outer, ast.For) else []
        )
        body: list[ast.AST] = [*node.body]
    else:
        heads, body = [*node.generators], [node.elt]
    if len(heads) != 2:
        return False
    first, second = (last_name(each.target) for each in heads)
    if not first or not second or not _begins_after(heads[1].iter, first):
        return False
    return any(
        isinstance(each, ast.BinOp | ast.Call)
        and {first, second} <= _indices(each)
        and look.value(each, site).is_tensor
        for part in body
        for each in walk(part)
    )


def _begins_after(over: ast.expr, first: str) -> bool:
    """``range(i + 1, n)``."""
    if not isinstance(over, ast.Call) or called_name(over) != "range" or len(over.args) != 2:
        return False
    return first in names(over.args[0])


def _indices(node: ast.AST) -> set[str]:
    """Names that something is indexed by."""
    return {
        name for each in walk(node) if isinstance(each, ast.Subscript) for name in names(each.slice)
    }


def _computes(node: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a loss or a layer is called, or something indexed by what the loop goes over."""
    parts = node.body if isinstance(node, ast.For) else [node.elt]
    inside = [each for part in parts for each in walk(part)]
    return any(isinstance(each, ast.Subscript | ast.BinOp) for each in inside) and any(
        isinstance(each, ast.Call) for each in inside
    )
