"""A permutation of everything, to draw a few."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import DRAWS, Heat, is_store
from hasten.scan.look import Look, called_name, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import varies


class PermutedToDraw(Rule):
    code = "HST132"
    name = "all-permuted-to-draw-few"
    why = "Each step permutes all indices, and uses a batch of them."
    instead = (
        "Permute once an epoch and take the next slice each step, or draw with replacement:"
        " `rng.integers(n, size=k)`."
    )
    verify = "Compare how often each sample is drawn."
    risk = "a seed gives other numbers"
    calls = ("choice", "permutation", "randperm", "sample")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def train(model, x, steps, size):
    for step in range(steps):
        rows = np.random.choice(len(x), size, replace=False)  # !
        others = torch.randperm(len(x))[:size]  # !
        model(x[rows], x[others]).backward()

class ReplayBuffer:
    def sample(self, size):
        return self.rows[np.random.choice(self.count, size, replace=False)]  # !
""",
        """\
import numpy as np
import torch

def train(model, x, steps, size):
    order = torch.randperm(len(x))[:size]
    for step in range(steps):
        rows = np.random.choice(len(x), size)
        mixed = torch.randperm(size)
        masked = np.random.choice(len(rows), 3, replace=False)
        model(x[rows], x[order], mixed, masked).backward()

class ReplayBuffer:
    def sample(self, size):
        return self.rows[np.random.choice(self.count, size)]

def forward(x, rate):
    return x[np.random.choice(len(x), int(rate * len(x)), replace=False)]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call, part = site.node, site.parent
        name = called_name(call)
        if name in ("permutation", "randperm"):
            is_part = (
                isinstance(part, ast.Subscript)
                and part.value is call
                and isinstance(part.slice, ast.Slice)
                and part.slice.upper is not None
            )
        elif name == "choice":
            is_part = is_constant(keyword(call, "replace"), value=False) and not is_constant(
                keyword(call, "shuffle"), value=False
            )
        else:
            inner = call.args[0] if call.args else None
            is_part = isinstance(inner, ast.Call) and called_name(inner) == "list"
        if is_part and self._is_of_all(site, look):
            yield Found(call, f"`{look.source(call)}` goes through all to draw a few")

    def _is_of_all(self, site: Site, look: Look) -> bool:
        """Whether a loop over steps draws from the same many each time, or a store that keeps past
        steps does for each batch."""
        owner = site.function.owner
        if owner is not None and is_store(owner) and DRAWS.search(site.function.last_name):
            return site.loop is None
        return any(
            look.heats.kind_of(loop) == Heat.STEP and not varies(site.node, loop)
            for loop in look.loops(site)
        )
