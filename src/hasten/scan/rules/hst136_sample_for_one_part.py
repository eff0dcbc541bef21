"""Whole samples that are loaded to look at one part of each."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, loop_of, varies

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
    for place in torch.randperm(9):
        number = place.item()
        sample = dataset[number]  # !
        sizes.append(len(sample["x"]))
    counts = torch.zeros(10)
    for place, (_, label) in enumerate(dataset):  # !
        counts[label] += place
    for sample in train_set:  # !
        counts[sample["label"]] += 1
    return sizes, labels, [other.dataset[i][1] for i in range(len(other.dataset))]  # !
""",
        """\
import torch

def test_labels(dataset):
    for _, label in dataset:
        assert label == 3

def write(dataset, names):
    for i in range(len(dataset)):
        sample = dataset[i]
        print(sample["x"], sample["y"])
    for x, y in dataset:
        print(x, y)
    for sample in dataset:
        print(sample["x"], sample["y"])
    for sample in dataset:
        print(sample)
    for i in range(3):
        print(dataset[i][0])
    return [name for _, name in names], [row for row in dataset]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = loop_of(site)
        if loop is None or site.function.last_name.startswith("test"):
            return
        target, over = _sample_and_source(loop)
        if DATASET.search(last_name(over)):
            if isinstance(site.node, ast.ListComp):
                takes_one = _takes_one(target, site.node.elt)
            else:
                takes_one = _uses_one(target, site.node)
            if takes_one:
                yield Found(site.node, f"all of `{look.source(over)}` is loaded for one part of it")
            return
        held = _counted(over) or _indexed(site.node, loop)
        if held is None or not DATASET.search(last_name(held)):
            return
        taken = _taken(site.node, look.source(held), look)
        if taken is not None:
            yield Found(taken, f"`{look.source(taken)}` is loaded whole for one part of it")


def _sample_and_source(loop: Loop) -> tuple[ast.expr | None, ast.expr]:
    """A loop's target and what it goes over, without what counts."""
    target, over = loop.header()
    match target, over:
        case ast.Tuple(elts=[_, each]), ast.Call(func=ast.Name(id="enumerate"), args=[held, *_]):
            return each, held
    return target, over


def _takes_one(target: ast.expr | None, given: ast.expr) -> bool:
    """``y for _, y in``."""
    return isinstance(target, ast.Tuple) and isinstance(given, ast.Name)


def _uses_one(target: ast.expr | None, loop: ast.For) -> bool:
    """Whether the body reads one of the parts that a sample is unpacked into, or asks each sample
    for one part only."""
    inside = [each for statement in loop.body for each in walk(statement)]
    if isinstance(target, ast.Tuple):
        parts = {each.id for each in target.elts if isinstance(each, ast.Name)}
        read = {each.id for each in inside if isinstance(each, ast.Name)}
        return len(target.elts) > 1 and len(parts & read - {"_"}) == 1
    if not isinstance(target, ast.Name):
        return False
    uses = sum(isinstance(each, ast.Name) and each.id == target.id for each in inside)
    asked = [
        ast.dump(each)
        for each in inside
        if isinstance(each, ast.Subscript)
        and isinstance(each.slice, ast.Constant)
        and isinstance(each.value, ast.Name)
        and each.value.id == target.id
    ]
    return 0 < uses == len(asked) and len(set(asked)) == 1


def _counted(over: ast.expr) -> ast.expr | None:
    """``x`` of ``range(len(x))``."""
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(args=[held]) as length]):
            return held if called_name(length) == "len" else None
    return None


def _indexed(node: ast.For | ast.ListComp, loop: Loop) -> ast.expr | None:
    """``x`` of ``sample = x[i]``, where each turn has another place."""
    for statement in node.body if isinstance(node, ast.For) else ():
        match statement:
            case ast.Assign(
                targets=[ast.Name()], value=ast.Subscript(value=held, slice=ast.Name() as place)
            ) if varies(place, loop):
                return held
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
