"""One pass over an array for every label in it."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, names, operands
from hasten.scan.vocabulary import words


class LabelByLabel(Rule):
    code = "HST421"
    name = "label-by-label"
    why = "Each label is looked for in the whole array (or its part of it) by a loop in Python."
    instead = (
        "One pass for all labels: `bincount` or `scatter_add` with the labels as index,"
        " `scipy.ndimage` with `index=`."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    nodes = (ast.Compare,)
    in_loops = True
    compared = (ast.Eq,)
    least = Heat.ONCE
    severity = "low"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def errors(err, masks, slices):
    return np.array([err[s][masks[s] == (j + 1)].mean() for j, s in enumerate(slices)])  # !
""",
        """\
import torch

def means(x, labels, n_classes):
    found = []
    for c in range(n_classes):
        found.append(x[labels == c].mean(0))  # !
    return torch.stack(found)

def overlaps(guess: torch.Tensor, truth: torch.Tensor, count):
    found = []
    for c in range(count):
        ours = guess == c  # !
        theirs = (truth == c).float()  # !
        places = torch.where(truth == c)[0]  # !
        found.append((ours * theirs).sum())
    return found

def hits(model, x, labels, k):
    preds = model(x).argmax(1)
    found = torch.zeros(k)
    for c in range(k):
        found[c] = ((preds == c) & (labels == c)).sum()  # !
    for place, c in enumerate(torch.unique(labels)):
        found[place] += (preds == c).sum()  # !
    return found
""",
        """\
import torch

def accuracy(model, loader):
    correct = 0
    for i, (x, y) in enumerate(loader):
        out = model(x)
        correct += (out.argmax(1) == y).sum().item()
        correct += ((out > 0) & (out.argmax(1) == y)).sum().item()
    return correct
""",
        """\
import torch

def means(x, labels, n_classes, names):
    for i in range(n_classes):
        if i == 3 or names[i] == "other" or labels == i:
            return x
    for b in range(n_classes):
        part = names[names.batch == b]
    return torch.zeros(n_classes).index_add_(0, labels, x)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        test: ast.Compare = site.node
        if site.loop is None or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
            return
        if isinstance(site.parent, ast.If | ast.IfExp | ast.BoolOp | ast.comprehension | ast.While):
            return
        if not _is_label(test.comparators[0], site.loop) or isinstance(test.left, ast.Constant):
            return
        is_mask = _is_mask(site, look)
        is_part = isinstance(test.left, ast.Subscript) and isinstance(site.parent, ast.Call)
        is_kept = (
            isinstance(site.parent, ast.Assign | ast.Attribute)
            or called_name(site.parent) in ("where", "nonzero", "sum", "argwhere", "flatnonzero")
            or _is_first_of_both(site)
        )
        if is_mask or is_part or (is_kept and look.value(test.left, site).is_tensor):
            yield Found(site.statement, f"`{look.source(test)}` is computed for every label")


def _is_mask(site: Site, look: Look) -> bool:
    """``x[labels == i]`` of an array, or of what is reduced at once."""
    part = site.parent
    if not isinstance(part, ast.Subscript) or part.slice is not site.node:
        return False
    kind = look.value(part.value, site).kind
    if kind != "unknown":
        return kind in ("tensor", "array", "batch")
    return any(
        called_name(each) in REDUCTIONS and part in operands(each) for each in walk(site.statement)
    )


REDUCTIONS = words("mean sum max min std var median any all prod norm quantile cov")


def _is_first_of_both(site: Site) -> bool:
    """``preds == c`` of ``(preds == c) & (labels == c)``."""
    match site.parent:
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr()):
            return left is site.node
    return False


def _is_label(node: ast.expr, loop: Loop) -> bool:
    """``i`` or ``i + 1`` of ``for i in range(n)``."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        node = node.left
    return bool(last_name(node)) and last_name(node) in _labels(*loop.header())


def _labels(target: ast.expr | None, over: ast.expr) -> set[str]:
    """The names that a loop gives one label after the other: all that counts, and no part of what
    is counted, unless these are the labels."""
    if isinstance(target, ast.Tuple) and called_name(over) == "enumerate" and len(target.elts) == 2:
        counted = over.args[0] if isinstance(over, ast.Call) and over.args else over
        return {last_name(target.elts[0])} | _labels(target.elts[1], counted)
    if target is None or called_name(over) not in ("range", "unique", "trange"):
        return set()
    return set(names(target))
