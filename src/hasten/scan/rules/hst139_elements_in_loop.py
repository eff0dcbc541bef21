"""A Python loop over the places of an array, in a hot place."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_at
from hasten.scan.vocabulary import words

COUNTS = ("range", "arange")
LITTLE = words("where int float abs min max append add len item isnan nonzero argwhere flatnonzero")


CALLS = (ast.Call, ast.Subscript, ast.JoinedStr, ast.List, ast.Tuple)


class ElementsInLoop(Rule):
    code = "HST139"
    name = "array-elements-in-python-loop"
    why = (
        "Each element that is taken out of an array becomes an object of its own, and each turn"
        " costs the interpreter some hundred times what the element does."
    )
    instead = (
        "Compare and compute whole arrays, also with themselves moved by one: `x[1:], x[:-1]`."
    )
    verify = "Compare the arrays of both versions."
    effort = "an hour"
    nodes = (ast.For, ast.ListComp)
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

class Graph(torch.nn.Module):
    def forward(self, x):
        row = x.cpu().numpy()
        edges = np.zeros((9, 9))
        for i in np.arange(len(row) - 1):  # !
            if row[i + 1] == 0:
                break
            edges[row[i], row[i + 1]] = 1
        for i in range(row.shape[0]):  # !
            edges[row[i], 0] = 2
        kinds = [each % 6 == 0 or each > 9 for each in row]  # !
        return edges, kinds
""",
        """\
import numpy as np
import torch

def prepare(rows: np.ndarray):
    for i in range(len(rows)):
        print(rows[i])

class Layers(torch.nn.Module):
    def forward(self, x, layers):
        for i in range(len(layers)):
            x = layers[i](x)
        names = [each + ".weight" for each in self.names]
        rows = x.cpu().numpy()
        for i in range(len(rows)):
            print(i)
        for i in range(3):
            print(rows[i])
        for i in range(len(rows)):
            x[rows[i] : rows[i] + 8] += self.tile(x)
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.ListComp):
            if _computes_each(node) and look.value(node.generators[0].iter, site).kind == "array":
                yield Found(node, f"`{look.source(node.elt)}` is computed number by number")
            return
        if not isinstance(node.target, ast.Name) or called_name(node.iter) not in COUNTS:
            return
        held = _measured(node.iter)
        if held is None or look.value(held, site).kind != "array":
            return
        if look.is_compiled(site.function):
            return
        name = look.source(held)
        inside = [each for statement in node.body for each in walk(statement)]
        if not all(map(_is_little, inside)) or not any(map(_decides, inside)):
            return
        if any(is_at(each, node.target.id) and look.source(each.value) == name for each in inside):
            yield Found(node, f"the elements of `{name}` are looked at one by one, in Python")


def _computes_each(made: ast.ListComp) -> bool:
    """``[x % 6 == 0 for x in numbers]``: nothing but arithmetic on each number."""
    target = made.generators[0].target
    if len(made.generators) > 1 or not isinstance(target, ast.Name):
        return False
    if not isinstance(made.elt, ast.BinOp | ast.Compare | ast.BoolOp):
        return False
    read = {each.id for each in walk(made.elt) if isinstance(each, ast.Name)}
    return target.id in read and not any(isinstance(each, CALLS) for each in walk(made.elt))


def _is_little(node: ast.AST) -> bool:
    """Whether it may be part of a turn that does next to nothing."""
    return not isinstance(node, ast.Slice) and (
        not isinstance(node, ast.Call) or called_name(node) in LITTLE
    )


def _decides(node: ast.AST) -> bool:
    """Whether it compares, or writes a single element."""
    return isinstance(node, ast.Compare) or (
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    )


def _measured(over: ast.expr) -> ast.expr | None:
    """``x`` of ``range(len(x) - 1)`` and ``range(x.shape[0])``."""
    for each in walk(over):
        match each:
            case ast.Call(func=ast.Name(id="len"), args=[held]):
                return held
            case ast.Attribute(value=held, attr="shape" | "size"):
                return held
    return None
