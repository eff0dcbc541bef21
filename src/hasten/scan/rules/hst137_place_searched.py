"""The place of a value in an array, searched for each value anew."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, is_own_attribute
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset


class PlaceSearched(Rule):
    code = "HST137"
    name = "place-searched-for-each-value"
    why = "Each turn compares the whole array to find one place: as many comparisons as pairs."
    instead = (
        "Ask for all places at once, `np.unique(x, return_inverse=True)` or `np.searchsorted`, or"
        " make a dict of places before the loop; in what is sorted `bisect` finds one."
    )
    verify = "Compare the places of both versions."
    calls = ("where", "nonzero", "flatnonzero", "argwhere")
    nodes = (ast.While,)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def places(values, known):
    found = []
    for value in values:
        found.append(np.where(known == value)[0][0])  # !
    return found, [np.flatnonzero(known == each)[0] for each in values]  # !
""",
        """\
from torch.utils.data import Dataset

class Files(Dataset):
    def __getitem__(self, index):
        file = 0
        while self.ends[file] <= index:  # !
            file += 1
        return self.read(file, index)
""",
        """\
import numpy as np

def places(values, known, limit):
    first = np.where(known == limit)[0][0]
    for value in values:
        above = np.where(value > limit)[0]
        known = np.where(known == value, 0, known)[0]
        other = np.where(values == limit)[0][0]
    return first, above, known, [len(np.where(known == each)[0]) for each in values]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.node, ast.While):
            walked = _walked(site.node)
            if walked is not None and in_dataset(site):
                yield Found(site.node, f"`{look.source(walked)}` is walked through for each sample")
            return
        if site.loop is None or len(site.node.args) != 1 or not _is_first(site):
            return
        compared = argument(site.node, 0, "condition")
        if not isinstance(compared, ast.Compare) or not isinstance(compared.ops[0], ast.Eq):
            return
        if site.loop.changes(compared) and not look.heats.goes_over_few(site.loop):
            yield Found(site.node, f"`{look.source(site.node)}` searches the whole array each time")


def _walked(loop: ast.While) -> ast.expr | None:
    """``self.ends`` of ``while self.ends[i] <= index: i += 1``, which `bisect` finds at once."""
    match loop:
        case ast.While(
            test=ast.Compare(
                left=ast.Subscript(value=held, slice=ast.Name(id=place)),
                ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()],
            ),
            body=[
                ast.AugAssign(target=ast.Name(id=counted))
                | ast.Assign(targets=[ast.Name(id=counted)])
            ],
        ):
            return held if place == counted and is_own_attribute(held) else None
    return None


def _is_first(site: Site) -> bool:
    """Whether the first place that was found is taken: ``[0][0]``, of a flat result ``[0]``."""
    match site.parent:
        case ast.Subscript(slice=ast.Constant(value=0)):
            if site.called == "flatnonzero":
                return True
            return any(
                isinstance(each, ast.Subscript) and each.value is site.parent
                for each in walk(site.statement)
            )
    return False
