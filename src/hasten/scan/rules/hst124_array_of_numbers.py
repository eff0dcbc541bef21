"""Arrays that were taken apart into numbers, and made anew from them."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


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
    return found, np.array(rows)  # !
""",
        """\
import numpy as np

def evaluate(model, loader, names):
    found = []
    for x in loader:
        found.append(model(x).numpy())
    names.extend(found[0].tolist())
    return np.concatenate(found), np.array(found)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        first = site.node.args[0] if site.node.args else None
        if not isinstance(first, ast.Name):
            return
        if any(_is_grown(each.node, first.id) for each in site.function.calls):
            yield Found(
                site.node, f"`{first.id}` was numbers of arrays, and becomes an array again"
            )


def _is_grown(call: ast.Call, name: str) -> bool:
    """``name.extend(x.tolist())`` and ``name.extend(x.cpu().numpy())``."""
    if called_name(call) != "extend" or len(call.args) != 1:
        return False
    grown = call.func.value if isinstance(call.func, ast.Attribute) else None
    given = call.args[0]
    return (
        isinstance(grown, ast.Name)
        and grown.id == name
        and isinstance(given, ast.Call)
        and called_name(given) in ("tolist", "numpy")
    )
