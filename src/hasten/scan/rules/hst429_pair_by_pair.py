"""A kernel for every pair of features."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, called_name, is_constant
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class PairByPair(Rule):
    code = "HST429"
    name = "pair-by-pair"
    why = "With n features there are n * (n - 1) / 2 pairs, each with kernels of its own."
    instead = "Stack the features and pick both sides by index: `x[:, rows] * x[:, columns]`."
    calls = ("combinations", "combinations_with_replacement", "permutations")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import itertools
import torch

class Interaction(torch.nn.Module):
    def forward(self, parts):
        return torch.cat([a * b for a, b in itertools.combinations(parts, 2)], dim=1)  # !

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
        orders = torch.tensor(list(itertools.permutations(range(3))))
        return x[:, self.rows] * x[:, self.columns], orders
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.parent
        if not isinstance(node, ast.For | ast.ListComp | ast.GeneratorExp):
            return
        if called_name(site.node) == "permutations":
            if _computes(node):
                yield Found(site.node, "each order is worked on by itself")
        elif is_constant(argument(site.node, 1, "r"), 2):
            yield Found(site.node, "each pair is worked on by itself")


def _computes(node: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a loss or a layer is called, or something indexed by what the loop goes over."""
    parts = node.body if isinstance(node, ast.For) else [node.elt]
    inside = [each for part in parts for each in walk(part)]
    return any(isinstance(each, ast.Subscript | ast.BinOp) for each in inside) and any(
        isinstance(each, ast.Call) for each in inside
    )
