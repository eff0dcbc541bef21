"""An array or a frame that grows in a loop."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, assigned, called_name, is_own_attribute, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class GrownArray(Rule):
    code = "HST120"
    name = "array-grown-in-loop"
    why = "Each turn copies all that was gathered so far: twice the turns take four times as long."
    instead = "Append to a list, and join the parts once after the loop."
    verify = "Compare the arrays of both versions."
    calls = ("append", "concatenate", "vstack", "hstack", "concat", "row_stack", "column_stack")
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import pandas as pd

def gather(parts, frames):
    found = np.empty((0, 3))
    table = pd.DataFrame()
    scores = np.array([])
    for part in parts:
        found = np.concatenate([found, part])  # !
        scores = np.append(scores, part.sum())  # !
    for frame in frames:
        table = pd.concat((table, frame), ignore_index=True)  # !
    rows = pd.DataFrame()
    for frame in frames:
        rows = rows.append(frame)  # !
    both = None
    for part in parts:
        both = part if both is None else np.vstack([both, part])  # !
    return found, scores, table, rows, both

class Gathered:
    def gather(self, parts):
        for part in parts:
            self.found = np.vstack((self.found, part))  # !
""",
        """\
import numpy as np

def gather(parts, rates):
    found = []
    for part in parts:
        found.append(part)
        part = np.concatenate([part, part])
    while len(found) < 100:
        found = np.vstack((found, draw()))
    for _ in range(10):
        rates = np.append(rates, rates[-1] / 2)
    found = np.concatenate(found)
    return found, rates
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        statement = site.statement
        if site.loop is None or not isinstance(statement, ast.Assign) or not call.args:
            return
        if not _gives(statement.value, call) or look.heats.goes_over_few(site.loop):
            return
        if isinstance(site.loop.node, ast.While):  # until enough were drawn, which takes few turns
            return
        target = statement.targets[0]
        if not isinstance(target, ast.Name | ast.Attribute) or _is_begun_in(site, target):
            return
        if any(_is_same(part, target) for part in _joined(call, look)):
            yield Found(call, f"`{look.source(target)}` is copied whole each time that it grows")


def _gives(value: ast.expr, call: ast.Call) -> bool:
    """Also ``part if found is None else np.concatenate([found, part])``."""
    if isinstance(value, ast.IfExp):
        return call in (value.body, value.orelse)
    return value is call


def _joined(call: ast.Call, look: Look) -> list[ast.expr]:
    """What a call puts together, of NumPy or pandas; ``frame.append(row)`` gives a new frame."""
    if look.dotted(call.func).partition(".")[0] in ("numpy", "np", "pandas", "pd"):
        first = call.args[0]
        return first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
    held = receiver(call)
    return [held] if held is not None and called_name(call) == "append" else []


def _is_same(node: ast.expr, target: ast.Name | ast.Attribute) -> bool:
    if isinstance(target, ast.Name):
        return isinstance(node, ast.Name) and node.id == target.id
    return is_own_attribute(target) and is_own_attribute(node) and last_name(node) == target.attr


def _is_begun_in(site: Site, target: ast.expr) -> bool:
    """Whether each turn of the loop begins with another one; what stands on the other side of the
    same condition only begins the first."""
    return any(
        each.value is not assigned(site)
        and site.loop is not None
        and site.loop.holds(each.line)
        and not _is_beside(site, each.line)
        for each in site.function.bindings.get(
            target.id if isinstance(target, ast.Name) else "", ()
        )
    )


def _is_beside(site: Site, line: int) -> bool:
    """Whether a condition of the loop holds the place and the line."""
    for block in site.block.outwards() if site.block is not None else ():
        if site.loop is not None and block.node is site.loop.node:
            break
        if isinstance(block.node, ast.If) and block.node.lineno <= line <= (
            block.node.end_lineno or 0
        ):
            return True
    return False
