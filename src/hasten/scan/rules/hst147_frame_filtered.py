"""A frame that is searched for the rows of each value in turn."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import varies


class FrameFiltered(Rule):
    code = "HST147"
    name = "frame-filtered-for-each-value"
    why = "Each turn compares a whole column and copies what fits: as many comparisons as pairs."
    instead = (
        "Group once: `groups = dict(iter(frame.groupby(column)))`, or sort by the column and split"
        " where it changes."
    )
    verify = "Compare the rows of a few values."
    nodes = (ast.Subscript,)
    in_loops = True
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def histories(df, users, frame):
    found = {}
    for user in users:
        rows = df[df["user"] == user]  # !
        found[user] = rows, frame.loc[frame.user == user, "item"].tolist()  # !
    return found
""",
        """\
def histories(df, users, x, labels):
    first = df[df["user"] == users[0]]
    for user, rows in df.groupby("user"):
        print(user, rows[rows["day"] == 1])
    for part in ("train", "test"):
        print(df[df["part"] == part])
    for label in labels:
        print(x[labels == label])
    return first
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        held, place = site.node.value, site.node.slice
        if isinstance(place, ast.Tuple) and place.elts:
            place = place.elts[0]
        if not isinstance(place, ast.Compare) or not isinstance(place.ops[0], ast.Eq):
            return
        if isinstance(held, ast.Attribute) and held.attr == "loc":
            held = held.value
        column, loop = place.left, site.loop
        if not isinstance(held, ast.Name) or not _is_column(column, held.id) or loop is None:
            return
        if look.heats.goes_over_few(loop) or varies(held, loop):
            return
        if varies(place.comparators[0], loop):
            yield Found(site.node, f"`{look.source(site.node)}` searches all rows in each turn")


def _is_column(node: ast.expr, frame: str) -> bool:
    """``frame["x"]`` and ``frame.x``."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Name() | ast.Constant()):
            return name == frame
        case ast.Attribute(value=ast.Name(id=name)):
            return name == frame
    return False
