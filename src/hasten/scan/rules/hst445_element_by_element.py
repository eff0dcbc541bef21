"""Two loops in Python over the rows and columns of an array."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, loop_of


class ElementByElement(Rule):
    code = "HST445"
    name = "element-by-element"
    why = (
        "Each index makes an object of one element (of a tensor by a kernel and a copy), some"
        " hundred times what the element itself takes."
    )
    instead = (
        "Compute on whole arrays with a mask: `x[mask]`, `np.where`, a table of labels indexed by"
        " the array; or go over `x.tolist()`."
    )
    verify = "Compare the results of both versions."
    effort = "an hour"
    nodes = (ast.For,)
    in_loops = True
    least = Heat.ONCE
    severity = "medium"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def align(predictions, labels, names):
    found = []
    for i in range(labels.shape[0]):
        row = []
        for j in range(labels.shape[1]):
            if labels[i, j] != -100:  # !
                row.append(names[predictions[i][j]])
        found.append(row)
    return found
""",
        """\
import torch

def iou_loss(boxes: torch.Tensor, others: torch.Tensor):
    n, m = boxes.size(0), others.size(0)
    found = torch.zeros(n, m)
    for a in range(n):
        for b in range(m):
            found[a, b] = overlap(boxes[a], others[b])  # !
    return found
""",
        """\
import numpy as np

def align(rows, labels, count):
    for i in range(len(labels)):
        for j in range(3):
            print(labels[i, j])
        for k in range(len(rows)):
            print(rows[k])
        for k in range(len(rows)):
            labels[i, k] = rows[k : k + 8]
        for word in rows[i]:
            print(word, labels[i])
    for _ in range(count):
        for i in range(len(labels)):
            labels[i, 0] = 1
    return labels
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        inner: ast.For = site.node
        outer = site.loop.node if site.loop is not None else None
        if not isinstance(outer, ast.For):
            return
        counters = last_name(outer.target), last_name(inner.target)
        if not all(counters) or not (_counts(outer.iter) and _counts(inner.iter)):
            return
        loop = loop_of(site)
        if loop is None or look.is_compiled(site.function) or _are_few(loop, look):
            return
        for statement in inner.body:
            if isinstance(statement, ast.Assert):
                continue
            inside = list(walk(statement))
            part = next((each for each in inside if _is_element(each, counters)), None)
            if part is not None and not any(isinstance(each, ast.Slice) for each in inside):
                is_number = _is_compared(part, inside)
                if is_number or not look.source(part).startswith("self."):
                    least = Heat.ONCE if is_number else Heat.STEP
                    said = f"`{look.source(part)}` is one element of an array"
                    yield Found(part, said, least=least)
                return


def _is_compared(part: ast.AST, inside: list[ast.AST]) -> bool:
    """Which shows that it is a single number."""
    return any(isinstance(each, ast.Compare) and part in walk(each) for each in inside)


def _counts(over: ast.expr) -> bool:
    return called_name(over) in ("range", "trange", "arange")


def _are_few(loop: Loop, look: Look) -> bool:
    return any(look.heats.goes_over_few(each) for each in loop.outwards() if each.is_statement)


def _is_element(node: ast.AST, counters: tuple[str, str]) -> bool:
    """``x[i, j]`` and ``x[i][j]``."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[first, second, *_])):
            return (last_name(first), last_name(second)) == counters
        case ast.Subscript(value=ast.Subscript(slice=first), slice=second):
            return (last_name(first), last_name(second)) == counters
    return False
