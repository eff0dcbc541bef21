"""Attention that is asked for its weights, which then nobody reads."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

ATTENTION = re.compile(r"^torch\.nn\.(\w+\.)*MultiheadAttention$")


class AttentionWeightsAsked(Rule):
    code = "HST436"
    name = "attention-weights-asked-for"
    why = (
        "To return its weights `MultiheadAttention` must write the whole matrix of positions by"
        " positions, and cannot use the fused kernels."
    )
    instead = "Pass `need_weights=False` wherever the weights are not read."
    risk = "rounding: sums are taken in another order"
    effort = "a minute"
    nodes = (ast.Assign,)
    mentions = ("need_weights", "MultiheadAttention")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(64, 4)

    def forward(self, x, return_weights=True):
        x, _ = self.attention(x, x, x)  # !
        x = self.attention(x, x, x)[0]  # !
        x, weights = self.attention(x, x, x, need_weights=return_weights)  # !
        return (x, weights) if return_weights else x
""",
        """\
from torch.nn.modules.activation import MultiheadAttention

class Layer(Base):
    def __init__(self):
        super().__init__()
        self.mha = MultiheadAttention(64, 4)

    def forward(self, x):
        return self.norm(x + self.mha(x, x, x)[0])

    def forward_late(self, x):
        out = self.mha(x, x, x)[0]  # !
        return out
""",
        """\
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(64, 4)

    def forward(self, x, other):
        x, _ = self.attention(x, x, x, need_weights=False)
        x, weights = self.attention(x, x, x)
        x, _ = self.lstm(x)
        return x, weights
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call, target = site.node.value, site.node.targets[0]
        drops = isinstance(call, ast.Subscript) and is_constant(call.slice, 0)
        if drops:
            call = call.value
        elif isinstance(target, ast.Tuple):
            drops = _ends_unread(target)
        else:
            return
        if not isinstance(call, ast.Call) or len(call.args) > 4:
            return
        asked = keyword(call, "need_weights")
        if asked is None:
            found = drops and _is_attention(call, site.function, look)
        else:
            always = drops and is_constant(asked, True)
            found = always or _is_true_by_default(asked, site.function)
        if found:
            yield Found(call, f"`{look.source(call.func)}` is asked for its weights")


def _ends_unread(target: ast.Tuple) -> bool:
    """``x, _ = ...``."""
    return len(target.elts) == 2 and last_name(target.elts[1]).startswith("_")


def _is_attention(call: ast.Call, function: Function, look: Look) -> bool:
    if not isinstance(call.func, ast.Attribute) or last_name(call.func.value) != "self":
        return False
    made = look.values.given(call.func, function)
    return isinstance(made, ast.Call) and bool(ATTENTION.match(look.dotted(made.func)))


def _is_true_by_default(node: ast.expr, function: Function) -> bool:
    """Whether it is a parameter that asks for the weights unless told not to."""
    definition = function.node
    if not isinstance(node, ast.Name) or not isinstance(definition, ast.FunctionDef):
        return False
    defaults = definition.args.defaults
    named = definition.args.args[-len(defaults) :] if defaults else []
    return any(
        each.arg == node.id and is_constant(default, True)
        for each, default in zip(named, defaults, strict=True)
    )
