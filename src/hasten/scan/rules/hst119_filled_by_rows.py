"""An array that a Python loop fills one row at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_at, loop_over_data
from hasten.scan.vocabulary import words

READS = words("load loadtxt genfromtxt fromfile from_numpy choice permutation tensor")
PLAIN = words("len abs float int max min sum")


class FilledByRows(Rule):
    code = "HST119"
    name = "array-filled-row-by-row"
    why = (
        "Each row costs a turn of the interpreter and several small arrays; the same on the whole"
        " array is a few calls."
    )
    instead = "Compute on the whole array, with an axis for the rows."
    verify = "Compare the arrays of both versions."
    effort = "an hour"
    risk = "sums in another order round differently"
    nodes = (ast.For,)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def distances(x, centers):
    found = np.zeros(len(x))
    for i in range(len(x)):  # !
        found[i] = np.linalg.norm(x[i] - centers)
    return found

def one_hot(x: np.ndarray, classes):
    found = np.zeros((len(x), classes))
    for i in range(x.shape[0]):  # !
        found[i, int(x[i])] = 1
    return found

def ranks(x: np.ndarray, table):
    found = np.empty(x.shape)
    for i, row in enumerate(x):  # !
        found[i] = np.searchsorted(table, row) / len(table)
    return found
""",
        """\
import numpy as np
from numba import njit

@njit
def norms(x):
    found = np.zeros(len(x))
    for i in range(len(x)):
        found[i] = np.linalg.norm(x[i])
    return found

def returns(rewards: np.ndarray, rate):
    found = np.zeros(len(rewards))
    for i in range(len(rewards) - 2, -1, -1):
        found[i] = rewards[i] + rate * found[i + 1]
    return found

def fill(x, models, paths):
    found = np.zeros((len(models), 3))
    for i in range(len(models)):
        found[i] = models[i].predict(x)
    for i in range(3):
        found[:, i] = np.sort(x[i])
    images = np.zeros((len(paths), 3))
    for i, path in enumerate(paths):
        images[i] = np.load(path)
    names = {}
    for i in range(len(paths)):
        names[paths[i]] = i
    return found, images, names
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.For = site.node
        over = node.iter
        if not isinstance(over, ast.Call) or called_name(over) not in ("range", "enumerate"):
            return
        place = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
        if not isinstance(place, ast.Name):
            return
        for statement in node.body:
            if isinstance(statement, ast.Assign) and self._fills(statement, place.id, site, look):
                if loop_over_data(site, look) is not None and not _goes_on(statement, node, look):
                    name = look.source(statement.targets[0])
                    yield Found(node, f"`{name}` is computed by a Python loop, one row at a time")
                return

    def _fills(self, statement: ast.Assign, place: str, site: Site, look: Look) -> bool:
        """``out[i] = np.f(x[i])``, where ``out`` is an array."""
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or not _is_row(target, place):
            return False
        if look.value(target.value, site).kind not in ("array", "tensor"):
            return False
        return self._is_array_arithmetic(statement.value, place, site, look) or self._is_moved(
            statement, place, site, look
        )

    def _is_moved(self, statement: ast.Assign, place: str, site: Site, look: Look) -> bool:
        """``out[i, x[i]] = 1`` and ``out[i, k] = x[i, j]``: single elements, put one by one."""
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Tuple):
            return False
        if isinstance(statement.value, ast.Subscript):
            read = [statement.value]
        elif isinstance(statement.value, ast.Constant):
            read = [
                each
                for part in target.slice.elts[1:]
                for each in walk(part)
                if isinstance(each, ast.Subscript)
            ]
        else:
            return False
        return any(
            is_at(each, place) and look.value(each.value, site).kind == "array" for each in read
        )

    def _is_array_arithmetic(self, value: ast.expr, place: str, site: Site, look: Look) -> bool:
        """Only of calls that work on whole arrays as well, on a row at the loop's place."""
        calls = [each for each in walk(value) if isinstance(each, ast.Call)]
        if not all(self._takes_arrays(each, site, look) for each in calls):
            return False
        if not calls and not isinstance(value, ast.BinOp):
            return False
        if isinstance(site.node.target, ast.Tuple):
            return look.value(site.node.iter.args[0], site).kind in ("array", "tensor")
        read = [each for each in walk(value) if is_at(each, place)]
        return bool(read) and all(look.value(each.value, site).kind != "list" for each in read)

    def _takes_arrays(self, call: ast.Call, site: Site, look: Look) -> bool:
        called = look.dotted(call.func)
        if called.startswith(("numpy.", "np.", "torch.")):
            return called_name(call) not in READS
        if called in PLAIN:
            return True
        return look.value(receiver(call), site).kind in ("array", "tensor")


def _is_row(node: ast.Subscript, place: str) -> bool:
    """``x[i]`` and ``x[i, :]``, not a column."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    return isinstance(first, ast.Name) and first.id == place


def _goes_on(statement: ast.Assign, loop: ast.For, look: Look) -> bool:
    """Whether rows are made of those before them."""
    target = statement.targets[0]
    name = look.source(target.value) if isinstance(target, ast.Subscript) else ""
    return any(
        isinstance(each, ast.Subscript)
        and isinstance(each.ctx, ast.Load)
        and look.source(each.value) == name
        for each in walk(loop)
    )
