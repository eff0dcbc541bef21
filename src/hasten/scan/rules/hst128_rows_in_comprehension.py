"""Arrays that are made of a list of what each row gives."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_at, is_window
from hasten.scan.trace import names
from hasten.scan.vocabulary import words

NUMERIC = words(
    "norm mean sum std var max min argmax argmin dot median log exp sqrt clip cumsum diff abs"
    " searchsorted interp where maximum minimum prod square einsum matmul softmax sigmoid relu"
    " cosine_similarity linalg percentile quantile"
)

MAKES = words(
    "load array asarray tensor as_tensor loadtxt fromfile from_numpy frombuffer choice arange zeros"
    " ones full eye rand randn randint empty linspace"
)
"""What reads a file or makes an array of no array."""


class RowsInComprehension(Rule):
    code = "HST128"
    name = "rows-computed-in-comprehension"
    why = (
        "A small array is made and a function called for each row; the whole array takes one call."
    )
    instead = (
        "Call it on the whole array with `axis=`; windows are views, `sliding_window_view` or"
        " `unfold`."
    )
    verify = "Compare the arrays of both versions."
    risk = "sums in another order round differently"
    calls = ("array", "asarray", "stack", "vstack", "concatenate", "tensor", "cat")
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def lengths(x: np.ndarray, width):
    first = np.array([np.linalg.norm(row) for row in x])  # !
    second = np.array([x[i].mean() for i in range(len(x))])  # !
    fourth = np.array([np.convolve(x[i], np.ones(3)) for i in range(x.shape[0])])  # !
    third = torch.stack([x[i : i + width] for i in range(len(x) - width)])  # !
    starts = range(0, len(x), 8)
    fifth = np.array([x[start : start + width] for start in starts])  # !
    sixth = np.array([x[i][[0, 2]] for i in range(x.shape[0])])  # !
    seventh = np.array([width for _ in range(x.shape[0])])  # !
    eighth = np.array([1 if each > width else 0 for each in x])  # !
    ninth = torch.stack([torch.eye(width)[label] for label in x.labels])  # !
    return ninth, first, second, third, fourth, fifth, sixth, seventh, eighth
""",
        """\
import numpy as np
import torch

def lengths(words, masks, weights):
    first = np.array([len(word) for word in words])
    second = np.array([weights[i] for i in range(len(words))])
    third = np.stack([np.load(word) for word in words])
    fourth = np.array([draw() for _ in range(len(words))])
    means = np.stack([np.mean(weights[masks == k], axis=0) for k in range(9)])
    return first, second, third, torch.stack([mask.mean() for mask in masks])

class Lags:
    def __call__(self, x, words):
        long = np.array([1 if len(word) > 3 else 0 for word in words])
        return np.stack([x[lag : lag + 9] for lag in self.lags]), long
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        made = site.node.args[0] if site.node.args else None
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1:
            return
        loop = made.generators[0]
        if loop.ifs or not isinstance(loop.target, ast.Name):
            return
        if _repeats(made.elt, loop.target.id, loop.iter):
            yield Found(site.node, f"`{look.source(made.elt)}` is repeated by a loop")
            return
        if self._is_rowwise(made.elt, loop.target.id, loop.iter, site, look):
            yield Found(site.node, f"`{look.source(made.elt)}` is computed row by row")

    def _is_rowwise(
        self, each: ast.expr, name: str, over: ast.expr, site: Site, look: Look
    ) -> bool:
        if is_window(each, name):
            return not isinstance(over, ast.Attribute)
        if _takes_row_of_identity(each, name):
            return True
        if _chooses(each, name):
            return look.value(over, site).kind == "array"
        if isinstance(over, ast.Call) and called_name(over) == "range":
            if _is_part_of_row(each, name, over):
                return True
            takes_row = any(
                is_at(part, name) and not isinstance(part.slice, ast.Compare) for part in walk(each)
            )
        else:
            takes_row = look.value(over, site).kind in ("array", "tensor")
        return takes_row and self._is_numeric(each, look)

    def _is_numeric(self, each: ast.expr, look: Look) -> bool:
        if not isinstance(each, ast.Call):
            return False
        if look.dotted(each.func).startswith(("numpy.", "np.", "torch.")):
            return called_name(each) not in MAKES
        return called_name(each) in NUMERIC and receiver(each) is not None


def _is_part_of_row(each: ast.expr, name: str, over: ast.Call) -> bool:
    """``x[i][columns]`` of ``range(x.shape[0])``, which is ``x[:, columns]``."""
    match each, over.args[-1:]:
        case (
            ast.Subscript(value=ast.Subscript(value=held, slice=ast.Name(id=place))),
            [ast.Subscript(value=ast.Attribute(value=counted, attr="shape"))],
        ):
            return place == name and ast.dump(held) == ast.dump(counted)
    return False


def _takes_row_of_identity(each: ast.expr, name: str) -> bool:
    """``np.eye(count)[label]``, which takes all labels at once."""
    match each:
        case ast.Subscript(value=ast.Call() as made, slice=ast.Name(id=place)):
            return place == name and called_name(made) in ("eye", "identity")
    return False


def _chooses(each: ast.expr, name: str) -> bool:
    """``1 if x > 0 else 0``, which is ``np.where`` of the whole array."""
    match each:
        case ast.IfExp(test=test, body=body, orelse=other):
            plain = (ast.Constant, ast.Attribute, ast.UnaryOp)
            decides = isinstance(test, ast.Name | ast.Compare | ast.UnaryOp)
            return (
                decides
                and isinstance(body, plain)
                and isinstance(other, plain)
                and name in names(test)
            )
    return False


def _repeats(each: ast.expr, name: str, over: ast.expr) -> bool:
    """``[row for _ in range(len(x))]``, which broadcasting gives for nothing."""
    return (
        isinstance(each, ast.Name | ast.Attribute)
        and called_name(over) == "range"
        and not any(isinstance(part, ast.Name) and part.id == name for part in walk(each))
    )
