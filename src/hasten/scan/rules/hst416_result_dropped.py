"""A result that a function computes and that its callers drop."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, names


class ResultDropped(Rule):
    code = "HST416"
    name = "result-always-dropped"
    why = "It is computed each time, often over a whole tensor, and no caller of this file uses it."
    instead = "Compute it only where it is asked for, or leave it out."
    nodes = (ast.Assign,)
    assigned = (ast.Call,)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def counts(x, y):
    hit = x * y
    miss = (1 - x) * (1 - y)  # !
    return hit.sum(), miss

class Loss(torch.nn.Module):
    def forward(self, x, y):
        hit, _ = counts(x, y)
        return hit
""",
        """\
import torch

def counts(x, y):
    hit = x * y
    miss = (1 - x) * (1 - y)
    return hit.sum(), miss

class Loss(torch.nn.Module):
    def forward(self, x, y):
        hit, _ = counts(x, y)
        _, miss = counts(x, y)
        return hit + miss
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        targets = site.node.targets[0]
        if not isinstance(targets, ast.Tuple) or not isinstance(site.node.value, ast.Call):
            return
        dropped = [i for i, each in enumerate(targets.elts) if last_name(each) == "_"]
        called = site.node.value.func
        if not dropped or not isinstance(called, ast.Name):
            return
        function = look.outline.function_named(called.id)
        if function is None or len(function.returns) != 1:
            return
        for place in dropped:
            if _all_drop(called.id, place, look):
                yield from _computed(function, place)


def _computed(function: Function, place: int) -> Iterator[Found]:
    """Where the function computes what stands at that place of what it returns."""
    given = function.returns[-1]
    if not isinstance(given, ast.Tuple) or place >= len(given.elts):
        return
    name = last_name(given.elts[place])
    if not isinstance(given.elts[place], ast.Name):
        return
    for binding in function.bindings.get(name, ()):
        if binding.value is not None and _is_arithmetic(binding.value):
            yield Found(binding.value, f"`{name}` is computed, and every caller drops it")


def _is_arithmetic(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp | ast.Name) or called_name(node) == "sum"


def _all_drop(name: str, place: int, look: Look) -> bool:
    """Whether no call in this file keeps what stands at that place."""
    for function in look.outline.functions:
        for site in function.calls if name in function.called else ():
            if isinstance(site.node.func, ast.Name) and site.node.func.id == name:
                statement = site.statement
                if not isinstance(statement, ast.Assign) or statement.value is not site.node:
                    return False
                target = statement.targets[0]
                if not isinstance(target, ast.Tuple) or place >= len(target.elts):
                    return False
                if "_" not in names(target.elts[place]):
                    return False
    return True
