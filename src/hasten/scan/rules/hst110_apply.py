"""``apply`` of a Python function to each element or row of a frame."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class Apply(Rule):
    code = "HST110"
    name = "pandas-apply"
    why = "It calls a Python function for each element, or makes a Series of each row first."
    instead = (
        "Write it on whole columns: arithmetic, `where`, `str` methods, `map` with a dict, or NumPy"
        " on `.to_numpy()`."
    )
    verify = "Compare the columns with `pandas.testing.assert_series_equal`."
    calls = ("apply", "applymap")
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "low"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import pandas as pd

def prepare(data, path):
    for column in data:
        data[column] = data[column].apply(lambda x: x + 1)  # !
    df = pd.read_csv(path)
    df["both"] = df.apply(join, axis=1)  # !
    return df.applymap(str)  # !
""",
        """\
import pandas as pd
import torch

def prepare(model, df, transform):
    model.apply(init_weights)
    model.net.apply(lambda module: module.reset_parameters())
    transform.apply(df)
    Function.apply(df, 1)
    return df.groupby("user").apply(list)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        read = receiver(call)
        if read is None or not call.args or not self._is_frame(call, read, site, look):
            return
        yield Found(call, f"`{look.source(call.func)}` runs Python for each element")

    def _is_frame(self, call: ast.Call, read: ast.expr, site: Site, look: Look) -> bool:
        by_rows = is_constant(keyword(call, "axis"), 1) or is_constant(
            keyword(call, "axis"), "columns"
        )
        if by_rows or call.func.attr == "applymap":  # type: ignore[attr-defined]
            return True
        if not isinstance(call.args[0], ast.Lambda):
            return False
        if isinstance(read, ast.Subscript):
            return look.value(read, site).kind not in ("tensor", "module")
        return look.value(read, site).kind == "frame" and not isinstance(read, ast.Call)
