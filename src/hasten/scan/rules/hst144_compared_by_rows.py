"""Rows of arrays that are compared with each other one by one."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import COMPREHENSIONS, Site
from hasten.scan.rule import Found, Rule


class ComparedByRows(Rule):
    code = "HST144"
    name = "rows-compared-one-by-one"
    why = (
        "Each comparison makes several small arrays to find out about one pair of rows: tens of"
        " microseconds, where all pairs at once take nanoseconds each."
    )
    instead = (
        "Compare all rows at once, `np.isclose(x[:, None], others).all(-1).any(-1)`, or ask a"
        " `cKDTree`; for exact ones keep a set of `row.tobytes()`."
    )
    verify = "Compare the masks of both versions."
    effort = "an hour"
    calls = ("allclose", "isclose", "array_equal", "equal")
    in_loops = True
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def unseen(points, known):
    return [p for p in points if not any(np.allclose(p, k) for k in known)]  # !

def place(row, rows):
    for i in range(len(rows)):
        if np.array_equal(rows[i], row):  # !
            return i

def matches(x: torch.Tensor, rows):
    return [torch.equal(x, row) for row in rows]  # !
""",
        """\
import numpy as np

def check(parts, steps):
    assert np.allclose(parts[0], parts[1])
    for part in parts:
        assert np.allclose(part, 0)
        if np.isclose(steps, 0):
            break
    for name, part in parts.items():
        assert np.array_equal(part, steps[name])
    for one, other in zip(parts, steps):
        if not np.array_equal(one, other):
            return False
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.statement, ast.Assert) or len(site.node.args) < 2 or site.loop is None:
            return
        if look.dotted(site.node.func).partition(".")[0] not in ("numpy", "np", "torch"):
            return
        if look.heats.goes_over_few(site.loop) or look.heats.kind_of(site.loop) is not None:
            return
        if not site.loop.changes(site.node):
            return
        if _asks_whether(site):
            message = f"`{look.source(site.node)}` compares one pair of rows"
            yield Found(site.node, message, least=Heat.STEP if _is_of_parts(site) else None)


def _is_of_parts(site: Site) -> bool:
    """Whether it compares two things part by part, of which there are a handful."""
    over = site.loop.header()[1] if site.loop is not None else None
    return called_name(over) in ("zip", "items", "keys", "values")


def _asks_whether(site: Site) -> bool:
    """Whether it looks for rows, as opposed to checking what is computed."""
    is_part_of_list = site.loop is not None and isinstance(site.loop.node, COMPREHENSIONS)
    return is_part_of_list or isinstance(site.statement, ast.If | ast.Assign | ast.Return)
