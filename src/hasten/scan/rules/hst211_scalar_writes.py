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
        if not _is_element(target.slice) or not site.loop.changes(target.slice):
            return
        written = look.value(site.node.value, site)
        if written.kind in ("number", "array") and look.value(target.value, site) == DEVICE_TENSOR:
            yield Found(site.node, f"`{look.source(target)}` is written alone, a launch each")


def _is_element(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(each, ast.Name | ast.Constant | ast.BinOp) for each in parts)
