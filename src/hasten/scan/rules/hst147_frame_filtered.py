"""A frame that is searched for the rows of each value in turn."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_own_attribute
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset
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
    indexed = (ast.Compare, ast.Tuple)
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
import torch
from torch.utils.data import Dataset

class Users(Dataset):
    def __getitem__(self, index):
        user = self.users[index]
        return torch.tensor(self.df[self.df["user"] == user].to_numpy())  # !

    def __len__(self):
        return len(self.users)

class Events(Dataset):
    def __getitem__(self, index):
        return self.events[self.events[:, 0] == index]  # !

    def __len__(self):
        return self.count
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
        if not _is_column(place.left, held):
            return
        if self._is_one_of_many(held, place.comparators[0], site, look):
            yield Found(site.node, f"`{look.source(site.node)}` searches all rows each time")

    def _is_one_of_many(self, held: ast.expr, value: ast.expr, site: Site, look: Look) -> bool:
        """Whether a loop, or a data set for its samples, asks for one value after the other."""
        loop = site.loop
        if loop is None:
            return is_own_attribute(held) and isinstance(value, ast.Name) and in_dataset(site)
        return not look.heats.goes_over_few(loop) and varies(value, loop) and not varies(held, loop)


def _is_column(node: ast.expr, frame: ast.expr) -> bool:
    """``frame["x"]``, ``frame.x`` and, of an array, ``frame[:, 0]``."""
    match node:
        case ast.Subscript(value=held, slice=ast.Tuple(elts=[ast.Slice(), ast.Constant()])):
            return ast.dump(held) == ast.dump(frame)
        case ast.Subscript(value=held, slice=ast.Name() | ast.Constant()):
            return ast.dump(held) == ast.dump(frame)
        case ast.Attribute(value=ast.Name() | ast.Attribute() as held):
            return ast.dump(held) == ast.dump(frame)
    return False
