"""Two loops, one in the other, over all pairs of rows."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_at, loop_over_data
from hasten.scan.trace import counter_of, names
from hasten.scan.vocabulary import words

COUNTS = ("range", "arange", "enumerate")
ARRAYS = ("numpy.", "torch.", "math.")
OF_CONTAINERS = words("append add extend item get index update sum mean max min norm")
BUILTINS = words("int float len abs min max sum round bool str ord tuple list")


class PairsInLoops(Rule):
    code = "HST148"
    name = "pairs-in-python-loops"
    why = (
        "Each pair of rows costs a turn of the interpreter and objects of its own: all"
        " at once is a few calls, hundreds of times as fast."
    )
    instead = (
        "Use whole arrays: `cdist`, a product of matrices or broadcasting for all pairs at once,"
        " `np.nonzero` for those that fit."
    )
    verify = "Compare the arrays of both versions."
    effort = "an hour"
    nodes = (ast.For,)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def near(points, radius):
    found = []
    for i in range(len(points)):  # !
        for j in range(i + 1, len(points)):
            if np.linalg.norm(points[i] - points[j]) < radius:
                found.append((i, j))
    return found

def likeness(rows):
    found = []
    for i in range(len(rows)):  # !
        for j in range(len(rows)):
            found.append(np.dot(rows[i], rows[j]))
    return torch.tensor(found)
""",
        """\
import numpy as np

def distance(a, b, table):
    for i in range(1, len(a)):
        for j in range(1, len(b)):
            table[i, j] = min(table[i - 1, j], table[i, j - 1]) + (a[i] != b[j])
    return table

def show(axes, images, tiles, starts):
    for i in range(len(images)):
        for j in range(len(images[i])):
            axes[i, j].imshow(images[i][j])
    for i in range(len(starts)):
        for j in range(len(starts)):
            tiles[i, j] = images[starts[i] : starts[i] + 8, starts[j] : starts[j] + 8]
    for z in range(len(images)):
        for plane in range(len(images[0])):
            tiles[z, plane] = normalize(tiles[z, plane])
    for i in range(len(starts)):
        for j in range(len(starts)):
            tiles[i, j] = starts[i] - starts[j]
    return {(i, j): 0 for i in range(9) for j in range(9)}
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        outer: ast.For = site.node
        inner = next((each for each in outer.body if isinstance(each, ast.For)), None)
        if inner is None or called_name(outer.iter) not in COUNTS:
            return
        if called_name(inner.iter) not in COUNTS:
            return
        first, second = counter_of(outer), counter_of(inner)
        if not first or not second or loop_over_data(site, look) is None:
            return
        inside = [each for statement in inner.body for each in walk(statement)]
        if any(_is_other(each, first, second) for each in inside):
            return
        if not all(_is_little(each, look) for each in inside if isinstance(each, ast.Call)):
            return
        if any(_takes_pair(each, first, second, look) for each in inside):
            yield Found(outer, f"`{first}` and `{second}` go over all pairs in Python")


def _is_little(call: ast.Call, look: Look) -> bool:
    """Whether it is of arrays, of Python or of a container, as opposed to work on a large part."""
    if isinstance(call.func, ast.Attribute):
        return called_name(call) in OF_CONTAINERS or look.dotted(call.func).startswith(ARRAYS)
    return isinstance(call.func, ast.Name) and call.func.id in BUILTINS


def _is_other(node: ast.AST, first: str, second: str) -> bool:
    """``x[i, j]``, of which HST445 speaks, ``x[i - 1]``, which was computed before, and ranges."""
    if not isinstance(node, ast.Subscript):
        return isinstance(node, ast.Slice)
    counted = {first, second}
    return counted <= set(names(node.slice)) or any(
        isinstance(each, ast.BinOp) and counted & set(names(each)) for each in walk(node.slice)
    )


def _takes_pair(node: ast.AST, first: str, second: str, look: Look) -> bool:
    """Arithmetic or a function of arrays with ``x[i]`` and ``y[j]``."""
    match node:
        case ast.BinOp():
            pair = [node.left, node.right]
        case ast.Call() if look.dotted(node.func).startswith(("numpy.", "torch.")):
            pair = node.args[:2]
        case _:
            return False
    return any(is_at(each, first) for each in pair) and any(is_at(each, second) for each in pair)
