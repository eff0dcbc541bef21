"""Expanded tensors that are joined, and so written out for every pair."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, root_name

EXPANDS = ("expand", "expand_as", "repeat", "tile", "repeat_interleave", "broadcast_to")
KEEPS = ("contiguous", "clone", "view", "reshape", "float", "to", "permute", "transpose", "flatten")
"""What may stand behind."""


class ExpandedThenJoined(Rule):
    code = "HST317"
    name = "expanded-then-joined"
    why = (
        "Each vector is written out once for every vector that it is paired with, and the layer"
        " that follows computes the same products of it as often."
    )
    instead = (
        "Give each part a layer of its own, apply it before expanding, and add the results:"
        " they broadcast."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    calls = ("cat", "concat", "concatenate", "hstack")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch import cat

class Pairs(torch.nn.Module):
    def forward(self, x, y):
        n, m = len(x), len(y)
        left = x.unsqueeze(1).expand(n, m, -1)
        right = y.unsqueeze(0).expand(n, m, -1)
        both = torch.cat([left, right], dim=-1)  # !
        other = cat((x.view(n, 1, 8).expand(n, m, 8), y, x.repeat(1, m, 1)), dim=2)  # !
        return self.layer(both), self.layer(other)
""",
        """\
import torch

def attention_scores(h, layer):
    n = h.size(0)
    pairs = torch.cat([h.repeat(1, n).view(n * n, -1), h.repeat(n, 1)], dim=1)  # !
    return layer(pairs)
""",
        """\
import torch

class Tokens(torch.nn.Module):
    def forward(self, x, z):
        first = self.first_token.expand(len(x), -1, -1)
        second = self.second_token.expand(len(x), -1, -1)
        x = torch.cat((first, second, x), dim=1)
        parts = [z.expand(3, -1) for _ in range(3)]
        steps = z.unsqueeze(1).repeat(1, x.shape[1], 1)
        front, end = x[:, 0:1].repeat(1, 3, 1), x[:, -1:].repeat(1, 3, 1)
        x = torch.cat([front, x, end], dim=1)
        return torch.cat([x, steps], -1), torch.cat(parts)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        joined = site.node.args[0] if site.node.args else None
        if not isinstance(joined, ast.List | ast.Tuple) or len(joined.elts) < 2:
            return
        expanded = [each for each in joined.elts if _is_expanded(each, site.function)]
        if len(expanded) > 1:
            yield Found(site.node, f"`{look.source(expanded[0])}` is written out for every pair")


def _is_expanded(node: ast.expr, function: Function) -> bool:
    """Whether it is an expanded result; what the module itself holds is one row for all, and a
    part that is repeated pads an end."""
    made: ast.expr | None = last_given(node, function) or node
    while isinstance(made, ast.Call) and called_name(made) in KEEPS:
        made = receiver(made)
    if not isinstance(made, ast.Call) or called_name(made) not in EXPANDS:
        return False
    root = root_name(made.func)
    if root is None or root.id == "self":
        return False
    return not any(isinstance(each, ast.Slice) and each.lower for each in walk(made.func))
