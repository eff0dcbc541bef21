"""Two loops in Python over the rows and columns of an array."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import counter_of, last_name, loop_of, names, root_name
from hasten.scan.vocabulary import words

COUNTS = ("range", "trange", "arange", "enumerate")
LITTLE = words(
    "append add extend item get index update sum mean max min norm int float len abs round bool"
    " str ord tuple list sqrt exp log dot"
)
"""Calls that take one element and no more."""
DRAWN = re.compile(r"^(ax|axs|axes|axarr|fig|plots?|subplots?|grid|table|sheet)$")
DRAWS = re.compile(r"plot|draw|show|figure|visuali|display|image")


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

def edges(adjacency):
    found = []
    for i in range(adjacency.shape[0]):
        for j in range(adjacency.shape[1]):
            if adjacency[i, j] != 0:  # !
                found.append((i, j))
    return found

def one_hot(texts, places):
    found = np.zeros((len(texts), 100, 4))
    for i, text in enumerate(texts):
        for j, letter in enumerate(text):
            found[i, j, places[letter]] = 1  # !
    return found
""",
        """\
import torch

class Pairs(torch.nn.Module):
    def forward(self, guesses, sources):
        found = guesses.new_empty(guesses.shape[0], guesses.shape[1], sources.shape[1])
        for i, guess in enumerate(guesses.transpose(0, 1)):
            for j, source in enumerate(sources.transpose(0, 1)):
                found[:, i, j] = self.loss(guess, source)  # !
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
    for i in range(1, len(labels)):
        for j in range(1, len(rows)):
            labels[i, j] = min(labels[i - 1, j], labels[i, j - 1]) + (rows[i] != rows[j])
    for i in range(len(rows)):
        for j in range(len(rows[i])):
            axes[i, j].imshow(rows[i][j])
    for z in range(len(rows)):
        for plane in range(len(rows[0])):
            labels[z, plane] = normalize(labels[z, plane])
    for _ in range(count):
        for i in range(len(labels)):
            labels[i, 0] = 1
    places = {}
    for i in range(len(rows)):
        for j in range(len(rows[i])):
            if rows[i][j] is None:
                rows[i][j] = "_"
    for i in range(count):
        for j in range(count):
            places[i, j] = len(places)
    return labels
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        inner: ast.For = site.node
        outer = site.loop.node if site.loop is not None else None
        if not isinstance(outer, ast.For) or not (_counts(outer) and _counts(inner)):
            return
        counters = counter_of(outer), counter_of(inner)
        loop = loop_of(site)
        if not all(counters) or loop is None or look.is_compiled(site.function):
            return
        if _are_few(loop, look) or DRAWS.search(site.function.last_name):
            return
        for statement in inner.body:
            if isinstance(statement, ast.Assert):
                continue
            inside = list(walk(statement))
            part = next((each for each in inside if _is_element(each, counters)), None)
            if part is None or _is_of_lists(part, site, look):
                continue
            if not any(_is_range_or_shifted(each, counters) for each in inside):
                yield from _said(part, inside, look)
            return


def _is_of_lists(part: ast.AST, site: Site, look: Look) -> bool:
    """A dict with pairs for its keys, and ``rows[i][j]`` of what is not known for an array."""
    held = part.value  # type: ignore[attr-defined]
    if isinstance(held, ast.Subscript):
        return look.value(held.value, site).kind not in ("array", "tensor", "frame")
    return look.value(held, site).kind == "dict"


def _said(part: ast.AST, inside: list[ast.AST], look: Look) -> Iterator[Found]:
    is_number = _is_compared(part, inside)
    if is_number or not look.source(part).startswith("self."):
        is_little = all(
            called_name(each) in LITTLE for each in inside if isinstance(each, ast.Call)
        )
        least = Heat.ONCE if is_number or is_little else Heat.STEP
        yield Found(part, f"`{look.source(part)}` is one element of an array", least=least)


def _is_compared(part: ast.AST, inside: list[ast.AST]) -> bool:
    """Which shows that it is a single number."""
    return any(isinstance(each, ast.Compare) and part in walk(each) for each in inside)


def _counts(loop: ast.For) -> bool:
    return called_name(loop.iter) in COUNTS


def _are_few(loop: Loop, look: Look) -> bool:
    return any(look.heats.goes_over_few(each) for each in loop.outwards() if each.is_statement)


def _is_element(node: ast.AST, counters: tuple[str, str]) -> bool:
    """``x[i, j]``, ``x[:, i, j]`` and ``x[i][j]``."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), *indices])):
            pass
        case ast.Subscript(slice=ast.Tuple(elts=indices)):
            pass
        case ast.Subscript(value=ast.Subscript(slice=first), slice=second):
            indices = [first, second]
        case _:
            return False
    if tuple(map(last_name, indices[:2])) != counters:
        return False
    root = root_name(node)
    return root is None or not DRAWN.search(root.id)


def _is_range_or_shifted(node: ast.AST, counters: tuple[str, str]) -> bool:
    """``x[i : i + 8]``, which is many elements, and ``x[i - 1]``, which was computed before."""
    if isinstance(node, ast.Slice):
        return any(each is not None for each in (node.lower, node.upper, node.step))
    return isinstance(node, ast.Subscript) and any(
        isinstance(each, ast.BinOp) and not set(counters).isdisjoint(names(each))
        for each in walk(node.slice)
    )
