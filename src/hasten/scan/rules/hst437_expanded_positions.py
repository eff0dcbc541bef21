"""Positions looked up for every sample, though they are the same for all."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name

EXPANDS = ("expand_as", "expand", "repeat")


class ExpandedPositions(Rule):
    code = "HST437"
    name = "expanded-positions"
    why = "The table is read once for every sample of the batch, and written to as often backward."
    instead = "Look up one row of positions, and let the addition broadcast over the batch."
    effort = "a minute"
    calls = EXPANDS
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Encoder(torch.nn.Module):
    def forward(self, items):
        ids = torch.arange(items.size(1), device=items.device)
        ids = ids.unsqueeze(0).expand_as(items)
        places = self.position_embedding(ids)  # !
        return self.item_embedding(items) + places
""",
        """\
import torch

class Encoder(torch.nn.Module):
    def forward(self, items, ids):
        ids = torch.arange(items.size(1), device=items.device).unsqueeze(0)
        places = self.position_embedding(ids)
        wide = ids.expand_as(items)
        kinds = self.kind_embedding(items)
        return self.item_embedding(items) + places + kinds, wide
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        statement = site.statement
        if not isinstance(statement, ast.Assign) or statement.value is not site.node:
            return
        if called_name(_source(site)) != "arange":
            return
        name = last_name(statement.targets[0])
        for each in site.function.calls:
            call = each.node
            if (
                call.lineno > site.node.lineno
                and "emb" in called_name(call).lower()
                and call.args
                and last_name(call.args[0]) == name
            ):
                yield Found(call, f"`{look.source(call.func)}` is given the same row many times")
                return


def _source(site: Site) -> ast.expr | None:
    """What the row is made by: ``torch.arange(n)`` of ``ids.unsqueeze(0).expand_as(x)``."""
    node: ast.expr | None = site.node
    for _ in range(6):
        match node:
            case ast.Call(func=ast.Attribute(value=value)) if called_name(node) != "arange":
                node = value
            case ast.Name():
                node = last_given(node, site.function)
            case ast.Subscript(value=value):
                node = value
            case _:
                return node
    return node
