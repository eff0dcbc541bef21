"""Arrays that are made of what a Python function gives for each row."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.vocabulary import words

PLAIN = words("list tuple")
CALLS_EACH = ("map", "filter")
TYPES = words("int float str bool len abs ord")
READS = words("load imread open read_csv read")


class ArrayOfMapped(Rule):
    code = "HST143"
    name = "array-made-by-map"
    why = "A Python function is called for each row, and an array is made of what it gives."
    instead = "Compute on the whole array, and choose rows with a mask: `x[keep(x)]`."
    verify = "Compare the arrays of both versions."
    effort = "an hour"
    calls = (
        "array",
        "asarray",
        "stack",
        "vstack",
        "concatenate",
        "tensor",
        "as_tensor",
        "fromiter",
    )
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def inside(points, shape, scale):
    kept = np.array(list(filter(shape.contains, points)))  # !
    moved = np.stack(tuple(map(lambda row: row * scale, kept)))  # !
    return torch.tensor(list(map(scale.of, moved)))  # !
""",
        """\
import numpy as np

def read(lines, paths, points):
    numbers = np.array(list(map(float, lines)))
    images = np.stack(list(map(np.load, paths)))
    few = np.array(list(filter(None, lines)))
    return numbers, images, few, points[points > 0], list(map(str.strip, lines))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        made = site.node.args[0] if site.node.args else None
        while isinstance(made, ast.Call) and called_name(made) in PLAIN and made.args:
            made = made.args[0]
        if not isinstance(made, ast.Call) or len(made.args) < 2 or made.keywords:
            return
        if not isinstance(made.func, ast.Name) or made.func.id not in CALLS_EACH:
            return
        if isinstance(made.args[0], ast.Constant):  # filter(None, ...)
            return
        mapped = look.dotted(made.args[0]).rpartition(".")[2]
        if mapped not in TYPES and mapped not in READS:
            yield Found(site.node, f"`{look.source(made)}` calls Python for each row")
