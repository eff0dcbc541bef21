"""Columns that are fitted one after the other."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ColumnsInTurn(Rule):
    code = "HST126"
    name = "columns-fitted-in-turn"
    why = "Each column is fitted by itself, on one core, though none needs another."
    instead = (
        "Fit them in parallel: `joblib.Parallel(n_jobs=-1)(delayed(fit)(c) for c in columns)`."
    )
    verify = "Compare what was fitted."
    risk = "fits that draw random numbers want a seed each"
    nodes = (ast.For,)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "low"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def fit(self, frame):
    for name in frame.columns:
        if name in self.discrete:
            info = self.count(frame[name])
        else:
            info = self._fit_mixture(frame[[name]])  # !
        self.infos.append(info)
""",
        """\
def rename(frame, models):
    for name in frame.columns:
        frame[name] = frame[name].fillna(0)
    for model in models:
        model.fit(frame)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        over = site.node.iter
        if not isinstance(over, ast.Attribute) or over.attr != "columns":
            return
        for statement in site.node.body:
            for each in walk(statement):
                if isinstance(each, ast.Call) and "fit" in called_name(each).split("_"):
                    yield Found(each, f"`{look.source(each.func)}` fits one column at a time")
