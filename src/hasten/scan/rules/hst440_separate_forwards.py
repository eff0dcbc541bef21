"""Parts of one batch, each run through the same model by itself."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.models import is_model_call
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, siblings

ENOUGH = 3


class SeparateForwards(Rule):
    code = "HST440"
    name = "separate-forwards"
    why = "Each run launches all kernels of the model for a part of the batch."
    instead = "Join the parts along the batch, run the model once, and split what it gives."
    risk = "batch statistics are then taken over all parts; more memory at once"
    nodes = (ast.Assign, ast.Expr)
    assigned = (ast.Call,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Solver(torch.nn.Module):
    def forward(self, batch):
        anchor = self.model(batch.anchor)
        near = self.model(batch.near)  # !
        far = self.model(batch.far)
        return anchor, near, far
""",
        """\
import torch

class Solver(torch.nn.Module):
    def forward(self, batch):
        anchor = self.model(batch.anchor)
        near = self.other(batch.near)
        far = self.model(batch.far)
        return anchor, near, far
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        given = site.node.value.args
        if len(given) != 1 or not isinstance(given[0], (ast.Attribute, ast.Call)):
            return
        call = _call_of_part(site.node)
        if call is None or not is_model_call(call, site.function, look):
            return
        alike = [each for each in siblings(site) if _is_alike(_call_of_part(each), call)]
        if len(alike) >= ENOUGH and alike[1] is site.node:
            yield Found(call, f"`{look.source(call.func)}` is run for parts of a batch in turn")


def _call_of_part(statement: ast.stmt) -> ast.Call | None:
    """``model(batch.x)`` of ``y = model(batch.x)`` and of ``found.append(model(batch.x))``."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call) or len(value.args) != 1 or value.keywords:
        return None
    if isinstance(value.args[0], ast.Call) and called_name(value) == "append":
        value = value.args[0]
        if len(value.args) != 1 or value.keywords:
            return None
    given = value.args[0]
    return value if isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name) else None


def _is_alike(one: ast.Call | None, other: ast.Call) -> bool:
    """Whether both run the same model on an attribute of the same."""
    return (
        one is not None
        and ast.dump(one.func) == ast.dump(other.func)
        and last_name(one.args[0].value) == last_name(other.args[0].value)  # type: ignore[attr-defined]
    )
