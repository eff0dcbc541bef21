"""Whole samples that are loaded to look at one part of each."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, loop_of

DATASET = re.compile(r"(^|_)data_?(set|source)$|(^|_)(train|valid|val|test)_?set$")


class SampleForOnePart(Rule):
    code = "HST136"
    name = "sample-loaded-for-one-part"
    why = (
        "The data set reads, decodes and transforms each whole sample, and all but one part of it"
        " is thrown away: a pass over all data for its labels or its sizes."
    )
    instead = "Let the data set give that part alone, or keep the labels and sizes beside it."
    verify = "Compare what both versions gather."
    effort = "an hour"
    nodes = (ast.For, ast.ListComp)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def weights(dataset, train_set, other):
    sizes = []
    for i in range(len(dataset)):
        sample = dataset[i]  # !
        sizes.append(sample["size"].item())
    labels = [y for _, y in train_set]  # !
    return sizes, labels, [other.dataset[i][1] for i in range(len(other.dataset))]  # !
""",
        """\
import torch

def write(dataset, names):
    for i in range(len(dataset)):
        sample = dataset[i]
        print(sample["x"], sample["y"])
    for x, y in dataset:
        print(x, y)
    for i in range(3):
        print(dataset[i][0])
    return [name for _, name in names], [row for row in dataset]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = loop_of(site)
        if loop is None:
            return
        target, over = loop.header()
        if DATASET.search(last_name(over)):
            if isinstance(site.node, ast.ListComp) and _takes_one(target, site.node.elt):
                yield Found(site.node, f"all of `{look.source(over)}` is loaded for one part of it")
            return
        held = _counted(over)
        if held is None or not DATASET.search(last_name(held)):
            return
        taken = _taken(site.node, look.source(held), look)
        if taken is not None:
            yield Found(taken, f"`{look.source(taken)}` is loaded whole for one part of it")


def _takes_one(target: ast.expr | None, given: ast.expr) -> bool:
    """``y for _, y in``."""
    return isinstance(target, ast.Tuple) and isinstance(given, ast.Name)


def _counted(over: ast.expr) -> ast.expr | None:
    """``x`` of ``range(len(x))``."""
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(args=[held]) as length]):
            return held if called_name(length) == "len" else None
    return None


def _taken(node: ast.For | ast.ListComp, held: str, look: Look) -> ast.Subscript | None:
    """The sample of which one part is used; ``x[i][1]``, or a name that is indexed once."""
    if isinstance(node, ast.ListComp):
        return _sample_of(node.elt, held, look)
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as sample) if (
                look.source(sample.value) == held
            ):
                uses = [
                    each for each in walk(node) if isinstance(each, ast.Name) and each.id == name
                ]
                parts = [
                    each
                    for each in walk(node)
                    if isinstance(each, ast.Subscript) and last_name(each.value) == name
                ]
                return sample if len(uses) == 2 and len(parts) == 1 else None
            case ast.Assign(value=value) | ast.Expr(value=ast.Call(args=[value])):
                found = _sample_of(value, held, look)
                if found is not None:
                    return found
    return None


def _sample_of(node: ast.expr, held: str, look: Look) -> ast.Subscript | None:
    """``x[i]`` of ``x[i][1]``."""
    for each in walk(node):
        match each:
            case ast.Subscript(value=ast.Subscript() as sample) if (
                look.source(sample.value) == held
            ):
                return sample
    return None
