"""``apply`` of a Python function to each element or row of a frame."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name
from hasten.scan.vocabulary import words

WHOLE = words("list tuple set len sum max min mean str int float")
"""What has no loop of its own in Python, or is what is asked for."""
INITIALIZES = re.compile(r"init|reset|weight|freeze")
"""What modules are given to apply."""


class Apply(Rule):
    code = "HST110"
    name = "pandas-apply"
    why = "It calls a Python function for each element, or makes a Series of each row first."
    instead = (
        "Write it on whole columns: arithmetic, `where`, `str` methods, `map` with a dict, or NumPy"
        " on `.to_numpy()`."
    )
    verify = "Compare the columns with `pandas.testing.assert_series_equal`."
    calls = ("apply", "applymap", "progress_apply", "parallel_apply", "map")
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
    df["text"] = df["text"].apply(clean)  # !
    df["size"] = df["text"].map(lambda x: len(x.split()))  # !
    df["low"] = df.size.apply(lambda x: x - 1)  # !
    df["short"] = df["text"].map(shorten)  # !
    df["rank"] = df.groupby("user").apply(rank)  # !
    return df.applymap(str)  # !

def shorten(text):
    return text[:10]
""",
        """\
import pandas as pd
import torch

def prepare(model, df, transform):
    model.apply(init_weights)
    model.net.apply(lambda module: module.reset_parameters())
    transform.apply(df)
    Function.apply(df, 1)
    model.parts["head"].apply(init_weights)
    df["kind"] = df["kind"].map({"a": 0})
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
        name, given = called_name(call), call.args[0]
        by_rows = is_constant(keyword(call, "axis"), 1) or is_constant(
            keyword(call, "axis"), "columns"
        )
        if name == "map":
            is_function = look.outline.function_named(last_name(given)) is not None
            return (is_function or isinstance(given, ast.Lambda)) and _is_column(read)
        if by_rows or name != "apply":
            return True
        if called_name(read) == "groupby" or _is_column(read):
            return last_name(given) not in WHOLE and not INITIALIZES.search(last_name(given))
        if not isinstance(given, ast.Lambda):
            return False
        if isinstance(read, ast.Subscript):
            return look.value(read, site).kind not in ("tensor", "module")
        if isinstance(read, ast.Attribute) and look.value(read.value, site).kind == "frame":
            return True
        return look.value(read, site).kind == "frame" and not isinstance(read, ast.Call)


def _is_column(node: ast.expr) -> bool:
    """``frame["x"]``."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    )
