"""Arrays that were taken apart into numbers, and made anew from them."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class ArrayOfNumbers(Rule):
    code = "HST124"
    name = "array-made-of-python-numbers"
    why = (
        "A Python object is made of every number or row, and an array of the list reads them all"
        " again, one by one."
    )
    instead = "Append the arrays or tensors to a list, and join them once."
    verify = "Compare the arrays of both versions, with their types."
    calls = ("array", "asarray", "tensor", "as_tensor", "FloatTensor", "LongTensor")
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def evaluate(model, loader):
    found = []
    for x in loader:
        found.extend(model(x).tolist())
    found = np.array(found)  # !
    rows = []
    for x in loader:
        rows.extend(model(x).argmax(1).cpu().numpy())
    parts, more = [], []
    for x in loader:
        part = model(x).cpu().numpy()
        parts.extend(part)
        more += list(model(x).cpu().numpy())
    parts = np.array(parts)  # !
    return found, np.array(rows), np.asarray(more)  # !
""",
        """\
import numpy as np

def evaluate(model, loader, names):
    found = []
    for x in loader:
        found.append(model(x).numpy())
    names.extend(found[0].tolist())
    total = np.zeros(3)
    for x in loader:
        total += model(x).numpy()
    total = np.array(total)
    places = []
    for name, value in names.items():
        places.extend(np.flatnonzero(total == value))
    return np.concatenate(found), np.array(found), np.array(places)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        first = site.node.args[0] if site.node.args else None
        if not isinstance(first, ast.Name):
            return
        if look.value(first, site).kind in ("array", "tensor"):
            return
        if any(_are_rows(each, site, look) for each in _added(first.id, site)):
            yield Found(
                site.node, f"`{first.id}` was numbers of arrays, and becomes an array again"
            )


def _added(name: str, site: Site) -> Iterator[ast.expr | None]:
    """What ``name.extend(...)`` and ``name += ...`` add; what a loop over the groups of a dict
    gathers is little."""
    for each in site.function.bindings.get(name, ()):
        if each.how == "changed":
            yield each.value
    for other in site.function.calls:
        call = other.node
        if other.called != "extend" or last_name(receiver(call)) != name or len(call.args) != 1:
            continue
        if other.loop is None or called_name(other.loop.header()[1]) not in OF_GROUPS:
            yield call.args[0]


OF_GROUPS = ("items", "values", "keys", "groupby", "unique")


def _are_rows(added: ast.expr | None, site: Site, look: Look) -> bool:
    """``x.tolist()``, ``list(x.numpy())`` and what is known for an array."""
    if called_name(added) in ("list", "tuple") and isinstance(added, ast.Call) and added.args:
        added = added.args[0]
    if called_name(added) in ("tolist", "numpy"):
        return True
    return look.value(added, site).kind == "array"
