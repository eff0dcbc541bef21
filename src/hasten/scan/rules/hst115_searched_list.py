"""Membership that is searched for element by element."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_own_attribute, names_in, receiver
from hasten.scan.outline import COMPREHENSIONS, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import FEW_PARTS
from hasten.scan.trace import last_name

LISTS = ("tolist", "to_list", "list", "sorted")
COUNTS = ("range", "arange")
GROWS = ("add", "append", "update", "extend")
FEW = re.compile(r"(^|_)(col|cols|columns?|attrs?|fields?|args|kwargs|modes?|types?|axes)$")
"""How is called what there is a handful of."""
NAMES = re.compile(
    r"(^|_)(names?|vars?|variables?|params?|keys?|features?|k|p|layers?|modules?|devices?)$"
)
"""Of lists that a comprehension made: these name parts, of which there are a handful as well."""


class SearchedList(Rule):
    code = "HST115"
    name = "list-searched-in-loop"
    why = "`in` looks at one element of a list after the other, for each turn of the loop again."
    instead = (
        "Keep a `set`, or a boolean array that is indexed; draw all candidates at once and throw"
        " away those that are taken."
    )
    verify = "Compare what both versions give from the same seed."
    risk = "drawing in another order gives other random numbers"
    nodes = (ast.Compare,)
    compared = (ast.In, ast.NotIn)
    in_loops = True
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import random
import numpy as np
from torch.utils.data import Dataset

def negative(history, count):
    found = random.randint(1, count)
    while found in history:  # !
        found = random.randint(1, count)
    return found

def unseen(items, column):
    known = column.tolist()
    fresh = []
    for item in items:
        if item not in known:  # !
            fresh.append(item)
    return fresh

def words(texts):
    known = []
    for text in texts:
        for word in text.split():
            if word not in known:  # !
                known.append(word)
    return known

def mask(tokens, count):
    chosen = np.random.choice(len(tokens), count, replace=False)
    for i in range(len(tokens)):
        if i in chosen:  # !
            tokens[i] = 0
    taken = np.unique(tokens)
    bonds = [each.number for each in tokens.bonds()]
    for token in tokens:
        if token.number not in bonds:  # !
            token.drop()
    return [i for i in range(len(tokens)) if i not in taken]  # !

class Records(Dataset):
    def __getitem__(self, index):
        codes = self.records[index]["codes"]
        return [1 if code in codes else 0 for code in self.vocabulary]  # !

def draw(groups, seen):
    while groups:
        left, right = groups.pop()
        rest = [i for i in np.arange(left, right) if i not in seen]  # !
        seen.update(rest)
""",
        """\
def unseen(items, column, kinds, axes):
    known = set(column.tolist())
    for item in items:
        if item not in known and item.kind in ["a", "b"] and item.name in kinds:
            yield item
        yield [i for i in range(3) if i not in axes]
    names = [each.name for each in items]
    columns = column.index.tolist()
    for col in column:
        yield col not in columns
    return "x" in names

def draw(taken_set, count):
    item = random.randint(1, count)
    while item in taken_set:
        item = random.randint(1, count)
    return item
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.Compare = site.node
        if not isinstance(node.ops[0], ast.In | ast.NotIn) or site.loop is None:
            return
        within = node.comparators[0]
        if (
            self._redraws(site)
            or self._rescans(site)
            or self._is_list(within, site, look)
            or (look.prepares_data(site) and _marks(site))
        ):
            yield Found(node, f"`{look.source(node)}` searches `{look.source(within)}` each turn")

    def _redraws(self, site: Site) -> bool:
        """``while x in taken: x = random...``."""
        loop, drawn = site.loop, site.node.left
        if loop is None or not isinstance(loop.node, ast.While) or site.parent is not loop.node:
            return False
        if last_name(site.node.comparators[0]).endswith("set"):
            return False
        given = site.function.bindings.get(drawn.id, ()) if isinstance(drawn, ast.Name) else ()
        return any(
            isinstance(each.value, ast.Call) and "rand" in ast.dump(each.value.func)
            for each in given
        )

    def _rescans(self, site: Site) -> bool:
        """``[i for i in range(n) if i not in taken]`` in a loop that takes more each turn."""
        loop = site.loop
        if loop is None or loop.outer is None or not isinstance(loop.node, COMPREHENSIONS):
            return False
        over = loop.header()[1]
        if not isinstance(over, ast.Call) or called_name(over) not in COUNTS:
            return False
        taken = ast.dump(site.node.comparators[0])
        return any(
            each.called in GROWS
            and isinstance(each.node.func, ast.Attribute)
            and ast.dump(each.node.func.value) == taken
            for each in site.function.calls
        )

    def _is_list(self, node: ast.expr, site: Site, look: Look) -> bool:
        """One of unknown length that was made before the loop."""
        if not isinstance(node, ast.Name) or look.local(site).inner == 0:
            return False
        if isinstance(site.node.left, ast.Constant):
            return False
        given = look.values.given(node, site.function)
        if given is None or site.loop is None or given.lineno >= _outermost(site):
            return False
        if FEW.search(node.id) or FEW.search(last_name(site.node.left)):
            return False
        if isinstance(given, ast.List):
            return not given.elts and _grows(node.id, site)
        if isinstance(given, ast.ListComp):
            asked = (node.id, last_name(site.node.left))
            return not any(map(NAMES.search, asked)) and _goes_over_many(given)
        if look.value(node, site).kind == "array":
            return isinstance(given, ast.Call)
        return isinstance(given, ast.Call) and called_name(given) in LISTS


def _marks(site: Site) -> bool:
    """``[1 if code in codes else 0 for code in self.vocabulary]``, where each sample is searched
    through for all that there may be."""
    match site.loop.node if site.loop is not None else None:
        case ast.ListComp(
            elt=ast.IfExp(
                test=ast.Compare(left=ast.Name(id=asked), comparators=[held]),
                body=ast.Constant(),
                orelse=ast.Constant(),
            ),
            generators=[ast.comprehension(target=ast.Name(id=each), iter=over)],
        ):
            return asked == each and is_own_attribute(over) and not is_own_attribute(held)
    return False


def _goes_over_many(made: ast.ListComp) -> bool:
    """Whether it may be long: not what is made of names of columns, or of a literal."""
    over = made.generators[0].iter
    if isinstance(over, ast.List | ast.Tuple | ast.Set | ast.Constant):
        return False
    few = (FEW, FEW_PARTS, NAMES)
    return not any(each.search(name) for each in few for name in names_in(over))


def _grows(name: str, site: Site) -> bool:
    """Whether the loop appends to it."""
    return any(
        each.called == "append"
        and last_name(receiver(each.node)) == name
        and each.loop is site.loop
        for each in site.function.calls
    )


def _outermost(site: Site) -> int:
    return min(loop.line for loop in site.loop.outwards()) if site.loop is not None else 0
