"""Rows or cells of a frame, looked up one at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import decodes, in_dataset, takes_many
from hasten.scan.trace import FOLLOWED, last_given, siblings
from hasten.scan.trace import names as names_of

LOOKUPS = ("iloc", "loc", "at", "iat")
ONE_ROW = (ast.Name, ast.BinOp, ast.Subscript)
"""What names one row: the number of it, or what is at its place in a list of keys."""


class FrameCell(Rule):
    code = "HST112"
    name = "frame-looked-up-row-by-row"
    why = (
        "Each lookup in a frame goes through its index and its types, and takes microseconds where"
        " an array takes nanoseconds."
    )
    instead = "Take `.to_numpy()` or a tensor of the columns once, and index that."
    verify = "Compare what both versions give."
    nodes = (ast.Subscript,)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import Dataset

class Table(Dataset):
    def __init__(self, frame):
        self.frame = frame

    def __getitem__(self, index):
        row = self.frame.iloc[index]  # !
        key = self.keys[index]
        other = self.frame.loc[key], self.frame.at[self.keys[index], "z"]  # !
        return row["x"], self.frame.loc[index, "y"], other  # !

def total(df):
    for i in range(len(df)):
        yield df.iloc[i]["x"]  # !
        yield df["z"][i]  # !
    for i, name in enumerate(df.index):
        df.loc[name, "y"] = i  # !
        df.loc[name, "z"] = i + 1

class Groups(Dataset):
    def __getitem__(self, index):
        groups, key = self.groups, self.keys[index]
        rows = groups[key]
        part = self.frame.loc[rows]  # !
        return self.scaler.transform(part.to_numpy())
""",
        """\
import soundfile as sf
from torch.utils.data import Dataset

class Sounds(Dataset):
    def __getitem__(self, index):
        row = self.df.iloc[index]
        return self._read(row["path"])

    def _read(self, path):
        return sf.read(path)[0]
""",
        """\
def split(df, parts):
    train = df.iloc[:100]
    for part in parts:
        print(df.loc[df["part"] == part])
        print(df.iloc[parts[: part.end]])
    for name in df.columns:
        print(df.loc[:, name])
    return train, df.loc["first"]
""",
        """\
from torch.utils.data import Dataset

class Rows(Dataset):
    def __getitem__(self, indices):
        return self.frame.iloc[indices, :].to_numpy()

class Parts(Dataset):
    def __getitem__(self, index: int | list[int]):
        return self.frame.iloc[index].to_numpy()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        lookup = site.node.value
        if isinstance(lookup, ast.Subscript):
            if site.loop is not None and _is_cell(site.node, lookup, site.loop):
                yield Found(site.node, f"`{look.source(site.node)}` looks up one cell at a time")
            return
        if not isinstance(lookup, ast.Attribute) or lookup.attr not in LOOKUPS:
            return
        place = site.node.slice
        first = place.elts[0] if isinstance(place, ast.Tuple) and place.elts else place
        if not isinstance(first, ONE_ROW) or _is_part(first):
            return
        names = set(names_of(first))
        if in_dataset(site):
            if takes_many(site.function) or decodes(site.function, look):
                return
            counted = any(_is_of_sample(each, site.function) for each in walk(first))
        else:
            counted = any(names & _targets(loop) for loop in look.loops(site))
        if counted and not _is_set_above(lookup, site):
            yield Found(site.node, f"`{look.source(site.node)}` looks up one row at a time")


def _is_part(node: ast.expr) -> bool:
    """``order[:end]``, which are many rows."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def _is_set_above(lookup: ast.Attribute, site: Site) -> bool:
    """Whether the statement before sets another cell of the same row: one trouble, said once."""
    body = siblings(site)
    place = body.index(site.statement) if site.statement in body else 0
    match body[place - 1] if place else None:
        case ast.Assign(targets=[ast.Subscript(value=ast.Attribute() as other)]):
            return ast.dump(other) == ast.dump(lookup)
    return False


def _is_of_sample(node: ast.AST, function: Function, steps: int = FOLLOWED) -> bool:
    """Whether it is a parameter but ``self``, or a name that was given what is at its place."""
    if not isinstance(node, ast.Name) or node.id == "self" or not steps:
        return False
    if node.id in function.parameters:
        return True
    given = last_given(node, function)
    if not isinstance(given, (*ONE_ROW, ast.Tuple)):
        return False
    return any(_is_of_sample(each, function, steps - 1) for each in walk(given))


def _is_cell(node: ast.Subscript, column: ast.Subscript, loop: Loop) -> bool:
    """``frame["x"][i]`` of ``for i in range(len(frame))``."""
    if not isinstance(column.slice, ast.Constant) or not isinstance(column.slice.value, str):
        return False
    target, over = loop.header()
    if not isinstance(target, ast.Name) or not isinstance(node.slice, ast.Name):
        return False
    return node.slice.id == target.id and any(
        isinstance(each, ast.Call)
        and called_name(each) == "len"
        and [ast.dump(held) for held in each.args] == [ast.dump(column.value)]
        for each in walk(over)
    )


def _targets(loop: Loop) -> set[str]:
    target, _ = loop.header()
    if target is None:
        return set()
    return {each.id for each in walk(target) if isinstance(each, ast.Name)}
