"""``numpy.vectorize``, which is a loop."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class NumpyVectorize(Rule):
    code = "HST427"
    name = "numpy-vectorize"
    why = "In spite of its name it calls a Python function for every element."
    instead = "Look values up in an array: `table[codes]`, `np.searchsorted`, `np.select`."
    calls = ("vectorize",)
    needs_torch = False
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def names(codes, table):
    return np.vectorize(table.get)(codes)  # !
""",
        """\
import numpy as np

def names(codes, table):
    return np.asarray(table)[codes]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        is_called = isinstance(site.parent, ast.Call) and site.parent.func is site.node
        if is_called and look.dotted(site.node.func) in ("numpy.vectorize", "np.vectorize"):
            yield Found(site.node, f"`{look.source(site.node)}` runs in Python for every element")
