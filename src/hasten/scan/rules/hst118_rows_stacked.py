"""Rows that a Python loop computes one by one, to be stacked again."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.models import is_model_call
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_at, is_window, loop_over_data
from hasten.scan.vocabulary import words

STACKS = words(
    "stack cat concat concatenate array asarray vstack hstack column_stack tensor mean sum average"
    " nanmean median std"
)

MAKES = words("load array asarray loadtxt fromfile frombuffer choice zeros ones full random")
"""What reads a file or makes an array of no array."""
ALONG_AXIS = words("argsort sort argpartition argmax topk mean sum norm cumsum where intersect1d")
PLACES = words("arange choice permutation unique linspace flip randperm flatnonzero argsort")


class RowsStacked(Rule):
    code = "HST118"
    name = "rows-computed-one-by-one"
    why = (
        "Each row or moment costs a turn of the interpreter and several small arrays; the same on"
        " the whole array is a few calls."
    )
    instead = (
        "Compute on the whole array, with an axis for the rows; over time, `cumsum`,"
        " `maximum.accumulate` and the like; windows are views, `sliding_window_view` or `unfold`."
    )
    verify = "Compare the arrays of both versions."
    effort = "an hour"
    risk = "sums in another order round differently"
    nodes = (ast.For,)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def gaps(mask: np.ndarray, steps):
    found = [np.zeros(3)]
    for step in range(1, steps):  # !
        found.append(np.ones(3) + (1 - mask[step - 1]) * found[-1])
    return np.asarray(found)

def windows(series, width):
    found = []
    for start in range(len(series) - width):  # !
        found.append(series[start : start + width])
    return np.array(found)

class Graphs(torch.nn.Module):
    def forward(self, x):
        rows = x.cpu().numpy()
        found = []
        for row in rows:  # !
            each = np.unique(row)
            found.append(np.outer(each, each))
        return torch.tensor(np.array(found))

def spectra(x: np.ndarray):
    found = []
    for i in range(len(x)):  # !
        each = spectrum(x[i], 8)
        found.append(each)
    return np.stack(found)

def precision(scores, truth, count):
    found = []
    for i in range(scores.shape[0]):  # !
        best = np.argsort(-scores[i])[:count]
        found.append(len(set(best) & set(truth[i])) / count)
    return np.mean(found)

def above(x, y, limit):
    kept, products = [], []
    for i in range(x.shape[0]):  # !
        if x[i, 3] > limit:
            kept.append(x[i])
    for i in range(len(y)):  # !
        products.append(np.dot(x[i], y[i]))
    return np.array(kept), np.array(products)

def all_gaps(masks: torch.Tensor):
    found = []
    for mask in masks:  # !
        each = gaps(mask, 3)
        found.append(each)
    return torch.stack(found)
""",
        """\
import numpy as np
import torch
from torch import nn

class Kernels(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.widths, self.pads = np.arange(count), np.arange(count)

    def forward(self, x):
        found = []
        for i, (width, pad) in enumerate(zip(self.widths, self.pads)):
            found.append(nn.functional.conv1d(x, self.kernel, dilation=width, padding=pad))
        return torch.cat(found)

class Recurrent(nn.Module):
    def forward(self, x: torch.Tensor):
        found = []
        for each in x:
            found.append(self.cell(each))
        for step in range(x.shape[1]):
            found.append(self.cell(x[:, step]) + 1)
        return torch.stack(found)

def read(paths, model, loader):
    images = []
    for path in paths:
        images.append(np.load(path) + 1)
    scores = []
    for x, y in loader:
        scores.append(model(x) - y)
    names = []
    for i in range(len(paths)):
        names.append(paths[i])
    few = []
    for i in range(3):
        few.append(np.ones(3) * scores[i])
    for i in np.arange(len(paths)):
        few.append(model(scores[i]))
    for part in np.array_split(scores, 4):
        few.append(np.exp(part))
    for i in range(scores.shape[1]):
        few.append(area(names, scores[:, i]))
    return np.stack(images), torch.cat(scores), np.array(names), np.stack(few)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for name, value in _appended(site.node):
            if not self._is_stacked(name, site):
                continue
            loop = loop_over_data(site, look)
            if loop is None or look.heats.kind_of(loop) == Heat.EPOCH:
                return
            if self._is_rowwise(value, loop, site, look):
                yield Found(site.node, f"`{name}` is computed row by row, and stacked again")
                return

    def _is_stacked(self, name: str, site: Site) -> bool:
        return any(
            each.called in STACKS
            and each.node.lineno > site.node.lineno
            and bool(each.node.args)
            and isinstance(each.node.args[0], ast.Name)
            and each.node.args[0].id == name
            for each in site.function.calls
        )

    def _is_rowwise(self, value: ast.expr, loop: Loop, site: Site, look: Look) -> bool:
        """Over an array itself; over a range, arithmetic on what is at its place."""
        target, over = loop.header()
        if look.value(over, site).kind in ("array", "tensor"):
            if _gives_places(over, site, look) or _cuts(over, site, look):
                return False
            return isinstance(_made_in(loop, value), ast.Call | ast.BinOp)
        if not isinstance(over, ast.Call) or called_name(over) != "range":
            return False
        if not isinstance(target, ast.Name):
            return False
        if is_window(value, target.id):
            return True
        made = _made_in(loop, value)
        if _is_of_counted(made, over, target.id) or _is_numeric(made, target.id, look):
            return True
        if _ranks_row(loop, over, target.id, look):
            return True
        if isinstance(made, ast.Call):
            return _is_given_row(made, target.id, site, look)
        return isinstance(value, ast.BinOp) and any(is_at(each, target.id) for each in walk(value))


def _is_of_counted(value: ast.expr, over: ast.Call, place: str) -> bool:
    """Whether it takes rows of the array whose rows are counted: ``x[i]`` of
    ``range(x.shape[0])``."""
    counted = set()
    for each in walk(over):
        match each:
            case ast.Subscript(
                value=ast.Attribute(value=held, attr="shape"), slice=ast.Constant(value=0)
            ):
                counted.add(ast.dump(held))
    return bool(counted) and any(
        is_at(each, place) and ast.dump(each.value) in counted for each in walk(value)
    )


def _is_numeric(value: ast.expr, place: str, look: Look) -> bool:
    """``np.dot(x[i], y[i])``."""
    if not isinstance(value, ast.Call) or called_name(value) in MAKES:
        return False
    if not look.dotted(value.func).startswith(("numpy.", "np.")):
        return False
    return any(is_at(each, place) for each in value.args)


def _ranks_row(loop: Loop, over: ast.Call, place: str, look: Look) -> bool:
    """Whether the turn sorts, ranks or sums a row of the array whose rows are counted, which
    takes an axis: ``np.argsort(-scores[i])`` of ``range(scores.shape[0])``."""
    return any(
        each.called in ALONG_AXIS
        and look.dotted(each.node.func).startswith(("numpy.", "np.", "torch."))
        and any(_is_of_counted(given, over, place) for given in each.node.args[:1])
        for each in loop.calls
    )


def _is_given_row(call: ast.Call, place: str, site: Site, look: Look) -> bool:
    """``f(x[i])`` of an array; what a model does with a row is said of the model."""
    if is_model_call(call, site.function, look):
        return False
    return any(
        is_at(each, place)
        and not isinstance(each.slice, ast.Slice)
        and look.value(each.value, site).kind == "array"
        for each in call.args
    )


def _gives_places(over: ast.expr, site: Site, look: Look) -> bool:
    """Whether what is gone over are numbers to choose by, such as those of sessions."""
    return called_name(look.values.given(over, site.function)) in PLACES


def _cuts(over: ast.expr, site: Site, look: Look) -> bool:
    """Whether it goes over a few large parts, so that memory suffices."""
    given = look.values.given(over, site.function) if isinstance(over, ast.Name) else over
    return called_name(given) in (
        "array_split",
        "split",
        "chunk",
        "tensor_split",
        "hsplit",
        "vsplit",
    )


def _made_in(loop: Loop, value: ast.expr) -> ast.expr:
    """What a name was given in the loop; any other expression itself."""
    if isinstance(value, ast.Name):
        for binding in loop.function.bindings.get(value.id, ()):
            if loop.holds(binding.line) and binding.value is not None and binding.how == "value":
                return binding.value
    return value


def _appended(node: ast.For) -> Iterator[tuple[str, ast.expr]]:
    inner = [
        each for statement in node.body if isinstance(statement, ast.If) for each in statement.body
    ]
    for statement in (*node.body, *inner):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "append"
                and isinstance(call.func.value, ast.Name)
                and len(call.args) == 1
            ):
                yield call.func.value.id, call.args[0]
