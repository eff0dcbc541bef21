"""Columns of several types that pass through one array."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

STACKS = ("column_stack", "hstack", "stack", "array", "concatenate", "c_")


class MixedColumns(Rule):
    code = "HST125"
    name = "columns-through-one-array"
    why = (
        "An array has one type: with a column of text every number becomes a Python object, and"
        " `astype` parses all of them again."
    )
    instead = "Give the columns to the frame as a dict: `pd.DataFrame(dict(zip(names, columns)))`."
    verify = "Compare the frames, with the types of their columns."
    calls = ("DataFrame",)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "low"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import pandas as pd

def frame(columns, names, types):
    data = np.column_stack(columns)  # !
    return pd.DataFrame(data, columns=names).astype(types)
""",
        """\
import numpy as np
import pandas as pd

def frame(columns, names, types):
    data = np.column_stack(columns)
    plain = pd.DataFrame(dict(zip(names, columns))).astype(types)
    return plain, pd.DataFrame(data, columns=names)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        parent = site.parent
        if not (isinstance(parent, ast.Attribute) and parent.attr == "astype" and site.node.args):
            return
        made = look.values.given(site.node.args[0], site.function)
        if isinstance(made, ast.Call) and called_name(made) in STACKS:
            yield Found(made, f"`{look.source(made)}` puts columns of all types into one array")
