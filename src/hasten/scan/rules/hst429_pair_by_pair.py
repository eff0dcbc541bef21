"""A kernel for every pair of features."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class PairByPair(Rule):
    code = "HST429"
    name = "pair-by-pair"
    why = "With n features there are n * (n - 1) / 2 pairs, each with kernels of its own."
    instead = "Stack the features and pick both sides by index: `x[:, rows] * x[:, columns]`."
    calls = ("combinations", "combinations_with_replacement")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import itertools
import torch

class Interaction(torch.nn.Module):
    def forward(self, parts):
        return torch.cat([a * b for a, b in itertools.combinations(parts, 2)], dim=1)  # !
""",
        """\
import itertools
import torch

class Interaction(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.pairs = list(itertools.combinations(range(n), 2))

    def forward(self, x):
        return x[:, self.rows] * x[:, self.columns]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        over_pairs = isinstance(site.parent, ast.For | ast.ListComp | ast.GeneratorExp)
        if over_pairs and is_constant(argument(site.node, 1, "r"), 2):
            yield Found(site.node, "each pair is worked on by itself")
