"""Zeros that something is added to at once."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following


class ZerosThenAdded(Rule):
    code = "HST311"
    name = "zeros-then-added"
    why = "It fills a tensor with zeros only to write it again."
    instead = "Start with `x.clone()`."
    effort = "a minute"
    calls = ("zeros_like",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Sum(torch.nn.Module):
    def forward(self, state, x):
        state["sum"] = torch.zeros_like(x)  # !
        state["sum"] += x
        return state
""",
        """\
import torch

class Sum(torch.nn.Module):
    def forward(self, parts):
        total = torch.zeros_like(parts[0])
        for part in parts:
            total += part
        return total
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        statement = site.statement
        if not isinstance(statement, ast.Assign) or statement.value is not site.node:
            return
        after = next(iter(following(site)), None)
        if isinstance(after, ast.AugAssign) and isinstance(after.op, ast.Add):
            target = look.source(after.target)
            if target == look.source(statement.targets[0]):
                yield Found(site.node, f"`{target}` is zeros, then something is added")
