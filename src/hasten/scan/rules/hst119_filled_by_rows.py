"""An array that a Python loop fills one row at a time."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat, bare
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.recurrence import handed_on
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import (
    counts_rows,
    holds_numbers,
    is_at,
    is_called_at,
    is_start_of_row,
    loop_over_data,
)
from hasten.scan.vocabulary import words

READS = words("load loadtxt genfromtxt fromfile from_numpy choice permutation tensor")
COUNTS = ("range", "enumerate", "arange")
PART = re.compile(r"^(c|ch|chan|channel|axis|dim|k|cls|slice_id|fold|head|layer|level)$")
"""How is called what counts a handful of large parts."""
MADE_EMPTY = words("zeros ones empty full zeros_like ones_like full_like")
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

def scores(x: np.ndarray, score):
    found = np.zeros(x.shape[0])
    for i in range(x.shape[0]):  # !
        found[i] = score(x[i])
    return found

def nearest(x, tree, count):
    found = np.zeros((x.shape[0], 1))
    for i in range(x.shape[0]):  # !
        distances, _ = tree.query(x[i, :].reshape(1, -1), k=count)
        found[i, :] = distances.mean()
    return found

def pairs(x, y):
    found = np.zeros((len(x), len(y)))
    for i in range(len(x)):  # !
        for j in range(len(y)):
            found[i, j] = np.sqrt(((x[i] - y[j]) ** 2).sum())
    return found

def codes(labels, classes, n_samples):
    found = np.zeros((n_samples, classes))
    for i in range(n_samples):  # !
        found[i][labels[i]] = 1
    return found

def neighbours(edges, count):
    found = np.zeros((count, count))
    for i, j in edges:  # !
        found[i, j] = 1
    return found

def joined(pairs, count):
    found = np.zeros((count, count))
    for pair in pairs:  # !
        found[pair[0]][pair[1]] = 1
    return found

def counts(classes, count):
    found = np.zeros(count)
    for each in classes:  # !
        found[each] += 1
    return found

def dense(labels, classes):
    found = np.zeros((len(labels), classes))
    for place, label in enumerate(labels):  # !
        found[place, label] = 1
    return found

def ranks(x: np.ndarray, table):
    found = np.empty(x.shape)
    for i, row in enumerate(x):  # !
        found[i] = np.searchsorted(table, row) / len(table)
    return found

def merged(times, places, rows, labels):
    found, kinds = np.full((9, 3), np.nan), np.zeros(9)
    for i, time in enumerate(times):  # !
        place = places[time]
        found[place] = rows[i]
        kinds[place] = labels[i]
    return found, kinds

def scale(x: np.ndarray, mean):
    for i in range(x.shape[0]):  # !
        x[i] = x[i] - mean
    return x

def sums(x, labels, classes):
    found = np.zeros((classes, x.shape[1]))
    for i in range(x.shape[0]):  # !
        found[labels[i]] += x[i]
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

def advantages(rewards: np.ndarray, values: np.ndarray, rate):
    found, following = np.zeros(len(rewards)), 0.0
    for t in range(len(rewards) - 1, -1, -1):
        following = rewards[t] + rate * following
        found[t] = following - values[t]
    return found

def fill(x, models, paths, groups):
    found = np.zeros((len(models), 3))
    for i in range(len(models)):
        found[i] = models[i].predict(x)
    for i in range(3):
        found[:, i] = np.sort(x[i])
    images = np.zeros((len(paths), 3))
    for i, path in enumerate(paths):
        images[i] = np.load(path)
    for i in range(len(paths)):
        images[i] = read(paths[i])
    names = {}
    for i in range(len(paths)):
        names[paths[i]] = i
    counts = {}
    for path in paths:
        counts[path] = 0
    for place, rows in enumerate(groups):
        found[place, rows] = 1
    order = np.zeros(len(paths))
    for place, path in enumerate(paths):
        order[place] = 1
    return found, images, names
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.For = site.node
        written = _put_by_targets(node)
        if written is not None and self._is_filled_here(written, site, look):
            yield Found(node, f"`{look.source(written)}` is set by a loop, one element at a time")
            return
        over = bare(node.iter) if called_name(node.iter) in ("tqdm", "trange") else node.iter
        if not isinstance(over, ast.Call) or called_name(over) not in COUNTS:
            return
        place = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
        if not isinstance(place, ast.Name) or PART.search(place.id):
            return
        for each in node.body:
            if isinstance(each, ast.AugAssign) and self._adds(each, over, place.id, site, look):
                name = look.source(each.target)
                yield Found(node, f"`{name}` is added to by a Python loop, one row at a time")
                return
        for statement in _assignments(node):
            target = statement.targets[0]
            if not isinstance(target, ast.Subscript) or not _is_row(target, place.id):
                continue
            if (
                statement in node.body and self._fills(statement, place.id, site, look)
            ) or self._works_on_rows(statement, over, place.id, site, look):
                if loop_over_data(site, look) is not None and not _goes_on(statement, site, look):
                    name = look.source(target)
                    yield Found(node, f"`{name}` is computed by a Python loop, one row at a time")
                return

    def _is_filled_here(self, written: ast.Subscript, site: Site, look: Look) -> bool:
        """Whether it is an array that the function has made, and the loop goes over much."""
        held = _filled(written)
        return (
            isinstance(held, ast.Name)
            and called_name(look.values.given(held, site.function)) in MADE_EMPTY
            and look.value(held, site).kind in ("array", "tensor")
            and loop_over_data(site, look) is not None
        )

    def _adds(
        self, statement: ast.AugAssign, over: ast.Call, place: str, site: Site, look: Look
    ) -> bool:
        """``sums[labels[i]] += x[i]``, which is one ``index_add_`` or ``np.add.at``."""
        target = statement.target
        return (
            isinstance(target, ast.Subscript)
            and isinstance(target.slice, ast.Subscript)
            and is_at(target.slice, place)
            and counts_rows(over, site.function, look)
            and look.value(target.value, site).kind in ("array", "tensor")
            and loop_over_data(site, look) is not None
        )

    def _works_on_rows(
        self, statement: ast.Assign, over: ast.Call, place: str, site: Site, look: Look
    ) -> bool:
        """Whether a loop that counts the rows of data takes one each turn, and puts what comes out
        into an array; not where it calls one of many objects or reads a file."""
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Subscript) or (
            isinstance(value, ast.Subscript) and not is_at(value, place)
        ):
            return False
        if look.value(_filled(target), site).kind not in ("array", "tensor"):
            return False
        if called_name(over) == "enumerate" or not counts_rows(over, site.function, look):
            return False
        if is_start_of_row(target, {place}):  # said by HST133 where it is hot
            return False
        inside = [each for statement in site.node.body for each in walk(statement)]
        calls = [each for each in inside if isinstance(each, ast.Call)]
        if any(called_name(each) in READS or is_called_at(each, place) for each in calls):
            return False
        return any(
            is_at(each, place)
            and isinstance(each.ctx, ast.Load)
            and holds_numbers(each, site, look)
            for each in inside
        )

    def _fills(self, statement: ast.Assign, place: str, site: Site, look: Look) -> bool:
        """``out[i] = np.f(x[i])``, where ``out`` is an array."""
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or isinstance(target.value, ast.Subscript):
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
            return self._is_given_row(calls, place, site, look)
        if not calls and not isinstance(value, ast.BinOp):
            return False
        if isinstance(site.node.target, ast.Tuple):
            return look.value(site.node.iter.args[0], site).kind in ("array", "tensor")
        read = [each for each in walk(value) if is_at(each, place)]
        return bool(read) and all(look.value(each.value, site).kind != "list" for each in read)

    def _is_given_row(self, calls: list[ast.Call], place: str, site: Site, look: Look) -> bool:
        """Whether functions are called with one row of an array, and are no models of a list."""
        given = [part for each in calls for part in each.args if is_at(part, place)]
        return (
            bool(given)
            and not any(called_name(each) in READS or is_at(each.func, place) for each in calls)
            and all(look.value(each.value, site).kind in ("array", "tensor") for each in given)
        )

    def _takes_arrays(self, call: ast.Call, site: Site, look: Look) -> bool:
        called = look.dotted(call.func)
        if called.startswith(("numpy.", "np.", "torch.")):
            return called_name(call) not in READS
        if called in PLAIN:
            return True
        return look.value(receiver(call), site).kind in ("array", "tensor")


def _put_by_targets(loop: ast.For) -> ast.Subscript | None:
    """``found[i, j]`` of a loop that does nothing but ``found[i, j] = 1`` or ``found[i] += 1``,
    where the loop gives the indices, each a single one, and more than the mere place."""
    if len(loop.body) > 1:
        return _scattered(loop)
    statement = loop.body[0]
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Subscript) or not isinstance(
        statement.value, ast.Constant | ast.Name
    ):
        return None
    given = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    if called_name(loop.iter) == "enumerate" and isinstance(loop.target, ast.Tuple):
        given -= {each.id for each in loop.target.elts[:1] if isinstance(each, ast.Name)}
    elif called_name(loop.iter) in COUNTS:
        return None
    indices = _indices(target)
    plain = [each for each in map(_given_index, indices) if each and each[-1:] != "s"]
    return target if len(plain) == len(indices) and given.intersection(plain) else None


def _indices(target: ast.Subscript) -> list[ast.expr]:
    """``i`` and ``j`` of ``found[i, j]`` and of ``found[i][j]``."""
    own = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return [*_indices(target.value), *own] if isinstance(target.value, ast.Subscript) else own


def _given_index(node: ast.expr) -> str:
    """``pair`` of ``pair`` itself and of ``pair[0]``; empty for what is no index of a loop."""
    match node:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name), slice=ast.Constant()):
            return name
    return ""


def _scattered(loop: ast.For) -> ast.Subscript | None:
    """``found[place]`` of a loop that looks places up and puts elements there, and does nothing
    else: ``place = places[time]; found[place] = rows[i]``."""
    looked_up: set[str] = set()
    written: list[ast.Subscript] = []
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                looked_up.add(name)
            case ast.Assign(targets=[ast.Subscript(slice=ast.Name(id=place)) as target]):
                written.append(target)
                if place not in looked_up:
                    return None
            case _:
                return None
    return written[0] if written and not _reads_or_calls(loop, written) else None


def _reads_or_calls(loop: ast.For, written: list[ast.Subscript]) -> bool:
    """Whether the loop reads what it writes, or calls anything."""
    held = {ast.dump(each.value) for each in written}
    return any(
        isinstance(each, ast.Call)
        or (
            isinstance(each, ast.Subscript)
            and isinstance(each.ctx, ast.Load)
            and ast.dump(each.value) in held
        )
        for part in loop.body
        for each in walk(part)
    )


def _assignments(loop: ast.For) -> Iterator[ast.Assign]:
    """Of the body and of what stands in it."""
    for statement in loop.body:
        for each in walk(statement) if isinstance(statement, ast.If | ast.For) else (statement,):
            if isinstance(each, ast.Assign):
                yield each


def _filled(target: ast.Subscript) -> ast.expr:
    """``out`` of ``out[i][j]``."""
    return target.value.value if isinstance(target.value, ast.Subscript) else target.value


def _is_row(node: ast.Subscript, place: str) -> bool:
    """``x[i]``, ``x[i, :]`` and ``x[i][j]``, not a column."""
    if isinstance(node.value, ast.Subscript):
        node = node.value
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    return isinstance(first, ast.Name) and first.id == place


def _goes_on(statement: ast.Assign, site: Site, look: Look) -> bool:
    """Whether rows are made of those before them; an array may change its rows in place."""
    loop: ast.For = site.node
    if handed_on(loop):
        return True
    target = statement.targets[0]
    if not isinstance(target, ast.Subscript):
        return False
    name = look.source(_filled(target))
    in_place = look.values.of(_filled(target), site.function).kind == "array"
    written = {id(row) for each in _assignments(loop) if (row := _row_written(each)) is not None}
    return any(
        isinstance(each, ast.Subscript)
        and isinstance(each.ctx, ast.Load)
        and id(each) not in written
        and look.source(each.value) == name
        and not (in_place and ast.dump(each.slice) == ast.dump(target.slice))
        for each in walk(loop)
    )


def _row_written(statement: ast.Assign) -> ast.Subscript | None:
    """``out[i]`` of ``out[i][j] = ...``."""
    match statement.targets[0]:
        case ast.Subscript(value=ast.Subscript() as row):
            return row
    return None
