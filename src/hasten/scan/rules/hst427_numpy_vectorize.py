"""``numpy.vectorize``, which is a loop."""

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
    calls = ("vectorize", "apply_along_axis", "apply_over_axes", "frompyfunc")
    needs_torch = False
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def names(codes, table):
    return np.vectorize(table.get)(codes)  # !

def scores(rows, score):
    both = np.vectorize(score)  # !
    return both(rows), np.apply_along_axis(score, 1, rows)  # !
""",
        """\
import numpy as np

def names(codes, table):
    return np.asarray(table)[codes]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.dotted(site.node.func).partition(".")[0] in ("numpy", "np"):
            yield Found(site.node, f"`{look.source(site.node)}` runs in Python for every element")
