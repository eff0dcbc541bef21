"""Rows of a frame, one at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

FEW = 100
"""Rows of which nobody waits for one at a time."""


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

def most(frame):
    for _, row in frame.head(100_000).iterrows():  # !
        yield row["a"]
    for _, row in frame[5:].iterrows():  # !
        yield row["a"]
""",
        """\
def first(frame):
    for _, row in frame.head(5).iterrows():
        yield row["a"]
    few = frame.sort_values("a").tail(n=3)
    for _, row in few.iterrows():
        yield row["a"]
    for _, row in frame.iloc[:10].iterrows():
        yield row["a"]
    for _, row in frame[:10].iterrows():
        yield row["a"]
    for _, row in frame.iloc[20:30].iterrows():
        yield row["a"]
""",
        """\
def graph(frame):
    for row in frame.itertuples():
        yield row.a, row.b
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        rows = look.values.given(receiver(site.node), site.function)
        if isinstance(site.node.func, ast.Attribute) and not _are_few(rows):
            yield Found(site.node, f"`{look.source(site.node)}` makes a Series of each row")


def _are_few(rows: ast.expr | None) -> bool:
    """``frame.head(5)`` and ``frame.iloc[:5]``."""
    match rows:
        case ast.Call(args=[], keywords=[]) if called_name(rows) in ("head", "tail"):
            return True
        case ast.Call() if called_name(rows) in ("head", "tail", "sample", "nlargest", "nsmallest"):
            return 0 <= _number(argument(rows, 0, "n")) <= FEW
        case ast.Subscript(slice=ast.Slice(lower=None, upper=upper, step=None)):
            return 0 <= _number(upper) <= FEW
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=None)):
            return _number(lower) >= 0 and 0 <= _number(upper) <= _number(lower) + FEW
    return False


def _number(node: ast.expr | None) -> int:
    """-1 for what is none that is known."""
    match node:
        case ast.Constant(value=int(value)):
            return value
    return -1
