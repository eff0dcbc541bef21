"""Rows of a frame, one at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class Iterrows(Rule):
    code = "HST111"
    name = "pandas-iterrows"
    why = "Each row becomes a Series of its own, with its types made alike: a hundred times slower."
    instead = (
        "Compute on whole columns; where a loop must be, use `itertuples()` or zip the columns."
    )
    verify = "Compare what both versions give."
    calls = ("iterrows",)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def graph(frame):
    for _, row in frame.iterrows():  # !
        yield row["a"], row["b"]
""",
        """\
def graph(frame):
    for row in frame.itertuples():
        yield row.a, row.b
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.node.func, ast.Attribute):
            yield Found(site.node, f"`{look.source(site.node)}` makes a Series of each row")
