"""A tensor repeated to a size that broadcasting gives for nothing."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, names, siblings

ELEMENTWISE = (ast.Mult, ast.Add, ast.Sub, ast.Div)
REACH = 12
COPIES = ("clone", "contiguous")


class TiledOperand(Rule):
    code = "HST306"
    name = "tiled-operand"
    why = "The copies are written to memory and read again, though they are all the same."
    instead = "Keep a dimension of size 1 and let the operation broadcast, or use `expand`."
    effort = "a minute"
    calls = ("tile", "repeat", "expand", "repeat_interleave")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, mask):
        wide = torch.tile(mask, (1, x.shape[1], 1))  # !
        x *= wide
        spread = mask.repeat(1, x.shape[1], 1)  # !
        y = x * spread
        full = mask.expand(x.shape).contiguous()  # !
        return x, y * full
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, mask):
        token = self.token.repeat(len(x), 1, 1)
        x = torch.cat([token, x], dim=1)
        wide = mask.expand(x.shape)
        rows = mask.expand(x.shape).contiguous()
        return x * wide, rows.view(-1)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        statement = site.statement
        if not isinstance(statement, ast.Assign) or _copied(statement.value) is not call:
            return
        if look.dotted(call.func).startswith(("numpy", "np.", "einops")):
            return
        target = last_name(statement.targets[0])
        if target and self._is_operand(target, site):
            yield Found(call, f"`{target}` is repeated for an operation that broadcasts")

    def _is_operand(self, target: str, site: Site) -> bool:
        """Whether one of the next statements multiplies or adds it."""
        line = site.statement.lineno
        for statement in _around(site):
            if line < statement.lineno <= line + REACH:
                for node in walk(statement):
                    if isinstance(node, ast.AugAssign):
                        read = [node.value]
                    elif isinstance(node, ast.BinOp) and isinstance(node.op, ELEMENTWISE):
                        read = [node.left, node.right]
                    else:
                        continue
                    if any(last_name(each) == target for each in read):
                        return True
                if isinstance(statement, ast.Assign) and target in names(statement.targets[0]):
                    return False
        return False


def _copied(node: ast.expr) -> ast.expr | None:
    """``x.expand(n)`` of ``x.expand(n).contiguous()``, which alone is no copy; any other call
    itself."""
    if isinstance(node, ast.Call) and called_name(node) in COPIES:
        held = receiver(node)
        return held if called_name(held) == "expand" else None
    return node if called_name(node) != "expand" else None


def _around(site: Site) -> list[ast.stmt]:
    """The statements of the place's body; under ``with`` also those of the body around it."""
    found = siblings(site)
    block = site.block
    while block is not None and isinstance(block.node, ast.With):
        block = block.parent
        holder = block.node if block is not None else site.function.node
        found = found + getattr(holder, block.branch if block is not None else "body", [])
    return found
