"""Tensors that are stacked to be averaged or summed at once."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, called_name, keyword
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, operands
from hasten.scan.vocabulary import words

REDUCES = words("mean sum max amax min amin")


class StackedToReduce(Rule):
    code = "HST321"
    name = "stacked-to-be-reduced"
    why = (
        "All tensors are copied, an element here and an element there, into one as large as all of"
        " them, though only their sum or mean is wanted."
    )
    instead = "Add as you go: `total = total + x`, and divide at the end; or `sum(tensors)`."
    risk = "rounding: sums are taken in another order"
    calls = ("stack",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Graph(torch.nn.Module):
    def forward(self, x, graph):
        found = [x]
        for layer in self.layers:
            found.append(layer(found[-1], graph))
        both = torch.stack(found, dim=1)  # !
        both = torch.mean(both, dim=1)
        return both

class Levels(torch.nn.Module):
    def forward(self, x):
        found = [level(x) for level in self.levels]
        return torch.stack(found, dim=-1).mean(-1)  # !
""",
        """\
import torch

class Levels(torch.nn.Module):
    def forward(self, x, weights):
        found = [level(x) for level in self.levels]
        losses = torch.stack([each.square().mean() for each in found])
        stacked = torch.stack(found, dim=1)
        shares = (stacked * weights).sum(1)
        plain = torch.stack(found).sum(dim=0)
        return torch.stack(found, dim=1).mean(-1), losses.mean(), shares, plain
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not call.args or not look.is_of_torch(call):
            return
        # along the first dimension it is one plain copy of each, which hardly shows
        dim = _number(argument(call, 1, "dim") or keyword(call, "axis"), missing=0)
        if not dim or _holds_numbers(call.args[0], site):
            return
        reduced = _reduction(site)
        if reduced is not None and _number(_dim_of(reduced), missing=None) == dim:
            yield Found(call, f"`{look.source(call)}` is a copy of all, to be reduced at once")


def _reduction(site: Site) -> ast.Call | None:
    """``stack(...).mean(1)``, ``mean(stack(...), 1)`` or either of a name in the next statement."""
    call = site.node
    held: ast.AST = site.statement
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            after = following(site)[:1]
            held = after[0] if after else site.statement
        case _:
            name = ""
    for each in walk(held):
        if not isinstance(each, ast.Call) or called_name(each) not in REDUCES:
            continue
        reduced = operands(each)
        if any(part is call for part in reduced):
            return each
        if name and any(isinstance(part, ast.Name) and part.id == name for part in reduced):
            return each
    return None


def _dim_of(call: ast.Call) -> ast.expr | None:
    given = keyword(call, "dim") or keyword(call, "axis")
    return given or next((each for each in call.args if _number(each, None) is not None), None)


def _number(node: ast.expr | None, missing: int | None) -> int | None:
    match node:
        case None:
            return missing
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return None


def _holds_numbers(node: ast.expr, site: Site) -> bool:
    """Whether it stacks losses and the like, of one number each."""
    if isinstance(node, ast.ListComp):
        return called_name(node.elt) in REDUCES
    return isinstance(node, ast.Name) and ("loss" in node.id or site.loop is not None)
