"""A condition for the last part of a batch that looks at the size of the part."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule


class PositionAgainstChunk(Rule):
    code = "HST612"
    name = "position-against-chunk"
    why = (
        "A position in the whole batch is compared with the length of one chunk of it: after the"
        " first chunk the condition is always the same, and gradients are dropped."
    )
    instead = "Compare with the length of the whole batch, which is known before the loop."
    risk = "training changes, as it was meant"
    verify = "Compare gradients with those of one undivided batch."
    calls = ("backward",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def loss_of(model, x, y, size):
    for start in range(0, len(x), size):
        end = start + size
        out = model(x[start:end])
        loss = torch.nn.functional.cross_entropy(out, y[start:end])
        if end < len(out):  # !
            loss.backward()
    return loss
""",
        """\
import torch

def loss_of(model, x, y, size):
    for start in range(0, len(x), size):
        end = start + size
        loss = torch.nn.functional.cross_entropy(model(x[start:end]), y[start:end])
        if end < len(x):
            loss.backward()
    return loss
""",
        """\
import torch

def train(model, loader, size):
    for x, y in loader:
        loss = model(x, y)
        if size < len(x):
            loss.backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        block, loop = site.block, site.loop
        if block is None or loop is None or not isinstance(block.node, ast.If):
            return
        test = block.node.test
        if not isinstance(test, ast.Compare) or not _goes_by_positions(loop):
            return
        sides = [test.left, *test.comparators]
        chunks = [each for each in sides if _is_length_of_inner(each, loop, site, look)]
        positions = [each for each in sides if _is_inner(each, loop, site, look)]
        if len(chunks) == 1 and positions:
            length = look.source(chunks[0])
            yield Found(block.node, f"`{length}` is the length of a chunk, not of the batch")


def _goes_by_positions(loop: Loop) -> bool:
    _, over = loop.header()
    if isinstance(over, ast.Call) and called_name(over) in ("enumerate", "tqdm") and over.args:
        over = over.args[0]
    return isinstance(over, ast.Call) and called_name(over) in ("range", "trange")


def _is_length_of_inner(node: ast.expr, loop: Loop, site: Site, look: Look) -> bool:
    return (
        isinstance(node, ast.Call)
        and called_name(node) == "len"
        and len(node.args) == 1
        and _is_inner(node.args[0], loop, site, look)
    )


def _is_inner(node: ast.expr, loop: Loop, site: Site, look: Look) -> bool:
    """Whether it is a name that is given its value in the loop."""
    if not isinstance(node, ast.Name):
        return False
    binding, _ = look.values.definition(node.id, node.lineno, site.function)
    return binding is not None and loop.line <= binding.line <= (loop.node.end_lineno or 0)
