"""All differences of all pairs, held as one tensor."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name, operands

POWERS = ("pow", "abs", "square")
NORMS = ("norm", "vector_norm")
SUMS = ("sum", "mean")
INNER = ("Constant(value=1)", "Constant(value=2)", "1")
CENTRES = re.compile(
    r"cent(er|re|roid)s?$|means?$|clusters?$|prototypes?$|codebook|anchors?$|protos?$"
)
"""What there are several of that rows are compared with, each a row itself."""
EXPANDS = ("expand", "repeat", "expand_as")
COMPARES = ("cosine_similarity", "pairwise_distance")


class PairwiseDifferences(Rule):
    code = "HST313"
    name = "pairwise-differences"
    why = "The tensor has rows by rows by features elements, of which only a sum is wanted."
    instead = "Use `torch.cdist`, or products: `|x|^2 + |y|^2 - 2 x @ y.t()`."
    risk = "rounding: sums are taken in another order"
    calls = (*NORMS, *SUMS, *COMPARES)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Kernel(torch.nn.Module):
    def forward(self, x, y):
        near = (x.unsqueeze(1) - y.unsqueeze(0)).pow(2).sum(-1)  # !
        far = torch.norm(x[:, None] - y[None], dim=-1)  # !
        return near, far
""",
        """\
import torch
import torch.nn.functional as F

def squared_distances(x, y):
    difference = x.view(len(x), 1, -1) - y.view(1, len(y), -1)  # !
    return torch.sum(difference**2, dim=-1)

def distances(x, y):
    n, m = len(x), len(y)
    one, other = x.unsqueeze(1).expand(n, m, -1), y[None].expand(n, m, -1)
    rows = x.unsqueeze(1).expand(n, m, -1)
    columns = y.unsqueeze(0).expand(n, m, -1)
    return torch.pow(rows - columns, 2).sum(2), one, other  # !

def kernel(x: torch.Tensor, y: torch.Tensor, gamma: float):
    l2 = ((x[None, :, :] - y[:, None, :]) ** 2).sum(2)  # !
    return torch.exp(-gamma * l2)

class Clusters(torch.nn.Module):
    def forward(self, x):
        return torch.sum((x.unsqueeze(1) - self.centers) ** 2, dim=-1)  # !

def similarities(a: torch.Tensor, b: torch.Tensor):
    return F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1)  # !
""",
        """\
import torch

class Kernel(torch.nn.Module):
    def forward(self, x, y, centre):
        wide = (x.unsqueeze(-1) - y.unsqueeze(-1)).pow(2)
        moved = x.unsqueeze(1) - y.unsqueeze(0)
        scaled = (x.unsqueeze(1) - self.offset).pow(2).sum(-1)
        near = (x - centre.unsqueeze(0)).pow(2)
        return torch.cdist(x, y), near, wide, moved.sum(-1), moved.abs(), scaled
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if called_name(call) in COMPARES:
            if len(call.args) > 1 and _are_paired(call.args[0], call.args[1], site.function):
                yield Found(call, f"`{look.source(call.func)}` has a row for every pair")
            return
        for each in operands(call)[:2]:
            difference = _difference(each, site.function, called_name(call) not in SUMS)
            if difference is not None and look.value(difference, site).kind != "array":
                message = f"`{look.source(difference)}` has a row for every pair"
                yield Found(difference, message, least=Heat.ONCE)


def _difference(node: ast.expr | None, function: Function, is_power: bool) -> ast.BinOp | None:
    """Of all pairs, behind a power and a name; a plain sum of differences is no distance."""
    match node:
        case ast.Name():
            return _difference(last_given(node, function), function, is_power)
        case ast.BinOp(op=ast.Pow(), left=inner):
            return _difference(inner, function, is_power=True)
        case ast.Call() if called_name(node) in POWERS:
            for each in operands(node)[:2]:
                found = _difference(each, function, is_power=True)
                if found is not None:
                    return found
        case ast.BinOp(op=ast.Sub()) if is_power and _are_paired(node.left, node.right, function):
            return node
    return None


def _are_paired(left: ast.expr, right: ast.expr, function: Function) -> bool:
    """Whether each has a dimension where the other has one of size 1."""
    one, other = (_lift(last_given(each, function) or each) for each in (left, right))
    if one and other:
        return one != other
    return (
        one in INNER
        and isinstance(right, ast.Name | ast.Attribute)
        and CENTRES.search(last_name(right)) is not None
    )


def _lift(node: ast.expr) -> str:
    """How ``x.unsqueeze(1)``, ``x[:, None]`` or ``x.view(n, 1, d)`` gets a dimension of size 1,
    also where it is then expanded."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner)) if called_name(node) in EXPANDS:
            return _lift(inner)
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return _places(parts, None)
        case ast.Subscript(slice=part):
            return _places([part], None)
        case ast.Call(args=[*_, place]) if called_name(node) == "unsqueeze":
            return ast.dump(place)
        case ast.Call(args=sizes) if called_name(node) in ("view", "reshape"):
            return _places(sizes, 1)
    return ""


def _places(parts: list[ast.expr], value: object) -> str:
    """Where the value stands among the parts."""
    found = [
        str(place)
        for place, each in enumerate(parts)
        if isinstance(each, ast.Constant) and each.value == value
    ]
    return " ".join(found)
