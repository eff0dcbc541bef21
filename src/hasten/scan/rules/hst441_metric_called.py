"""A metric that is called where it only has to be updated."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class MetricCalled(Rule):
    code = "HST441"
    name = "metric-called-for-nothing"
    why = "Calling a metric also computes its value for the batch, often by a second update."
    instead = "Call `metric.update(...)`, and `compute()` once at the end."
    effort = "a minute"
    nodes = (ast.Expr,)
    assigned = (ast.Call,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def validation_step(batch, model, metrics):
    pred = model(batch["x"])
    for metric in metrics.values():
        metric(pred, batch["y"])  # !
""",
        """\
import torch

def validation_step(batch, model, metric, log):
    pred = model(batch["x"])
    metric.update(pred, batch["y"])
    value = metric(pred, batch["y"])
    log("value", value)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node.value
        if not isinstance(call, ast.Call) or not call.args:
            return
        name = last_name(call.func).lower()
        if name == "metric" or name.endswith("_metric"):
            yield Found(call, f"the value of `{look.source(call.func)}` is computed and dropped")
