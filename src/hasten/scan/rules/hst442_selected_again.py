"""The same rows picked by a mask several times in one expression."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

MASKS = re.compile(r"ma?sk|keep|valid|select")


class SelectedAgain(Rule):
    code = "HST442"
    name = "selected-again"
    why = "Each selection by a mask waits for the device to count, and copies the rows."
    instead = "Select once and give the result a name; for its size take `mask.sum()`."
    effort = "a minute"
    nodes = (ast.Subscript,)
    indexed = (ast.Name, ast.Tuple)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, w):
        mask = x[0] > 0
        return w.repeat(1, x[:, mask].shape[-1]) * x[:, mask]  # !
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, y, mask):
        x[mask] = x[mask] + 1
        return x[:, mask] * y[:, mask]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.Subscript = site.node
        if not isinstance(node.ctx, ast.Load) or not _by_mask(node.slice):
            return
        said = look.source(node)
        if look.source(site.statement).count(said) < 2 or not look.value(node, site).is_tensor:
            return
        again = [each for each in walk(site.statement) if _is_read(each, said, look)]
        if len(again) > 1:
            yield Found(site.statement, f"`{said}` is selected {len(again)} times")


def _by_mask(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(each, ast.Name) and MASKS.search(each.id) for each in parts)


def _is_read(node: ast.AST, said: str, look: Look) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and look.source(node) == said
    )
