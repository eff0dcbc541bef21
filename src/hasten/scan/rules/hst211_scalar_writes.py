"""Single elements that are written to a device tensor one by one."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.value import DEVICE_TENSOR


class ScalarWrites(Rule):
    code = "HST211"
    name = "scalar-writes"
    why = "Every element that is written is a launch and a copy of its own."
    instead = "Fill an array or a list on the host and copy it once."
    nodes = (ast.Assign,)
    in_loops = True
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def centers(masks, device):
    found = torch.zeros((len(masks), 2), device=device)
    for i, mask in enumerate(masks):
        found[i, 0] = float(mask.start)  # !
        found[i, 1] = np.mean(mask)  # !
    return found
""",
        """\
import torch

def known_loss(scores, known):
    filtered = scores.clone()
    for i in range(filtered.size(0)):
        taken = known[i]
        filtered[i][taken] = -float("inf")  # !
    for row, items in enumerate(known):
        filtered[row, items] = 0.0  # !
        filtered[row][:3] = 0.0
    return filtered
""",
        """\
import torch

def centers(masks, device):
    found = torch.zeros((len(masks), 2))
    for i, mask in enumerate(masks):
        found[i, 0] = float(mask.start)
    found = found.to(device)
    for i in range(len(found)):
        found[i] = found[i - 1] * 2
        found[:, i] = 1
    found[0, 0] = 1
    return found
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        target = site.node.targets[0]
        if site.loop is None or not isinstance(target, ast.Subscript):
            return
        table, index = _element(target)
        if not all(map(_is_place, index)) or not any(map(site.loop.changes, index)):
            return
        written = look.value(site.node.value, site)
        if written.kind in ("number", "array") and look.is_on_device(table, site):
            is_known = look.value(table, site) == DEVICE_TENSOR
            message = f"`{look.source(target)}` is written alone, a launch each"
            yield Found(site.node, message, None, None if is_known else Heat.STEP)


def _element(target: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
    """A table and where in it: ``x``, ``[i, j]`` of ``x[i, j]`` and of ``x[i][j]``."""
    index = target.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if not isinstance(target.value, ast.Subscript):
        return target.value, parts
    table, outer = _element(target.value)
    return table, [*outer, *parts]


def _is_place(index: ast.expr) -> bool:
    return isinstance(index, ast.Name | ast.Constant | ast.BinOp)
