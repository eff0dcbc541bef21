"""A tensor repeated to a size that broadcasting gives for nothing."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, names, siblings

ELEMENTWISE = (ast.Mult, ast.Add, ast.Sub, ast.Div)
REACH = 12
MANY = 3
"""With as many dimensions, one that is repeated by itself is mostly of size 1."""
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

def offsets(boxes, points):
    left = boxes[:, 0].unsqueeze(1).repeat(1, len(points))  # !
    right = boxes[:, 2].unsqueeze(1).repeat(1, len(points))  # !
    inside = points[None] > left
    first = boxes[:, 0].unsqueeze(1).repeat(1, len(points)) - points.unsqueeze(0)  # !
    return inside & (right > points[None]), first
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, x, mask):
        token = self.token.repeat(len(x), 1, 1)
        x = torch.cat([token, x], dim=1)
        wide = mask.expand(x.shape)
        rows = mask.expand(x.shape).contiguous()
        tiled = mask.repeat(self.views, self.views)
        x = x * tiled
        starts = self.offsets.repeat_interleave(x.lengths)
        scale = x.new_tensor(self.scale).repeat(1, 2)
        return x * wide, rows.view(-1), x - starts, x / scale
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        statement = site.statement
        if look.dotted(call.func).startswith(("numpy", "np.", "einops")):
            return
        if isinstance(site.parent, ast.BinOp):
            if isinstance(site.parent.op, ELEMENTWISE) and _is_one_of_pair(call, site.parent):
                yield Found(call, f"`{look.source(call)}` is an operand that would broadcast")
            return
        if not isinstance(statement, ast.Assign) or _copied(statement.value) is not call:
            return
        target = last_name(statement.targets[0])
        if target and _may_broadcast(call) and self._is_operand(target, site):
            yield Found(call, f"`{target}` is repeated for an operation that broadcasts")

    def _is_operand(self, target: str, site: Site) -> bool:
        """Whether one of the next statements multiplies, adds or compares it; of those further
        down, the first that uses it."""
        end = site.statement.end_lineno or site.statement.lineno
        for statement in _around(site):
            if statement.lineno <= end:
                continue
            if any(_is_operand_of(each, target) for each in walk(statement)):
                return True
            is_near = statement.lineno <= end + REACH
            if not is_near and target in names(statement):
                return False
            if isinstance(statement, ast.Assign) and target in names(statement.targets[0]):
                return False
        return False


def _is_operand_of(node: ast.AST, target: str) -> bool:
    match node:
        case ast.AugAssign(value=value):
            read = [value]
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, ELEMENTWISE):
            read = [left, right]
        case ast.Compare(left=left, comparators=others):
            read = [left, *others]
        case _:
            return False
    return any(last_name(each) == target for each in read)


def _may_broadcast(call: ast.Call) -> bool:
    """Whether what is repeated may well be of size 1 there; rows that are tiled are not."""
    if called_name(call) == "expand" or _has_one(call):
        return True
    counts = _counts(call)
    if called_name(call) == "repeat_interleave" or len(counts) < MANY:
        return False
    wide = [each for each in counts if not is_constant(each, 1) and not _is_starred(each)]
    return len(wide) == 1 and not isinstance(wide[0], ast.Constant | ast.BinOp)


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _is_one_of_pair(call: ast.Call, operation: ast.BinOp) -> bool:
    """Whether both sides have a dimension of size 1, so that the result is of all pairs anyway."""
    other = operation.right if operation.left is call else operation.left
    if called_name(call) not in ("repeat", "tile") or all(
        isinstance(each, ast.Constant) for each in _counts(call)
    ):
        return False
    return _has_one(call) and _has_one(other)


def _counts(call: ast.Call) -> list[ast.expr]:
    """How often each dimension is repeated: those of ``x.repeat(1, n)`` and ``tile(x, (1, n))``."""
    match call.args:
        case [*_, ast.Tuple(elts=counts) | ast.List(elts=counts)]:
            return counts
    return call.args


def _has_one(node: ast.expr) -> bool:
    """Whether a part of it was given a dimension of size 1."""
    for each in walk(node):
        match each:
            case ast.Call(func=ast.Attribute(attr="unsqueeze")):
                return True
            case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=sizes):
                if any(is_constant(size, 1) for size in sizes):
                    return True
            case ast.Subscript(slice=ast.Tuple(elts=parts)):
                if any(is_constant(part, None) for part in parts):
                    return True
            case ast.keyword(arg="keepdim", value=ast.Constant(value=True)):
                return True
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
