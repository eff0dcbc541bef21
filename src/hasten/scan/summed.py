"""The fix for a sum that a loop adds a number to in every step: it is added up on the device.

It is kept in float64, in which Python adds numbers up. The sum itself becomes a tensor until the
loop is over: to have another beside it is longer, and needs a device to make it on. Where a type
checker knows that it is a tensor, and would not have it added to a number, there is one beside it.
"""

import ast
import re
from collections.abc import Iterator

from hasten.records.scan import Fix
from hasten.scan.annotated import is_known_tensor
from hasten.scan.devices import may_be_several
from hasten.scan.edits import (
    fix_of,
    insert_line_after,
    insert_line_before,
    rename,
    replace_methods,
)
from hasten.scan.known_devices import CPU, CUDA, kinds_of_devices
from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.reads import Holds, before_copies, detached, holds, is_read
from hasten.scan.scalars import is_scalar
from hasten.scan.trace import last_name
from hasten.scan.usage import Usage

LACKS_DOUBLE = re.compile(r"\b(mps|xpu)\b")
SLOW = " It takes float64, which not every device has."
BY_HAND = (
    "Add up in a tensor beside `{}`, in float64, on the device that the model is on, and read that"
    " after the loop."
)


def sum_up(site: Site, usage: Usage, look: Look) -> Fix | None:
    """Of ``total += loss.item()``."""
    read = [_read_in(above[-1], site, look) for _, above in usage.inside]
    if None in read or site.node not in read:
        return None
    tensors = [before_copies(each) for each in read if each is not None]
    kinds = {holds(each) for each in tensors}
    kind = _kind_of_sum(usage.first_values(), kinds)
    if kind == "unknown" or (kind == "int" and not _are_whole(usage)):
        return None
    if may_be_several(tensors, usage.loop, site, look):
        return None
    if any(is_known_tensor(each, site, look) for each in tensors):
        return _sum_up_beside(site, usage, look, kind)
    loop = usage.statement
    several = len({ast.dump(each) for each in tensors}) > 1
    one = _as_scalar(site, usage, look) if several else ""
    suffix = f"{detached(site, look)}{one}.double()" if kind == "float" else one
    lacks = kind == "float" and not _has_double(look)
    return fix_of(
        "unsafe" if lacks else "safe",
        _about(usage) + (SLOW if lacks else ""),
        replace_methods(look.lines, site.node, before_copies(site.node), suffix),
        insert_line_after(look.lines, loop, f"{usage.name} = {kind}({usage.name})"),
    )


def _sum_up_beside(site: Site, usage: Usage, look: Look, kind: Holds) -> Fix | None:
    """Unsafe, since nothing tells that the loss lies where the data were sent."""
    name, fresh = usage.name, usage.fresh_name("on_device")
    torch, device = look.outline.name_of("torch"), _device_of(usage, look)
    if torch is None or device is None or fresh is None:
        return Fix(safety="display", about=BY_HAND.format(name))
    dtype = "float64" if kind == "float" else "int64"
    made = f"{fresh} = {torch}.tensor({name}, dtype={torch}.{dtype}, device={device})"
    loop = usage.statement
    added = _added(site, usage, look, kind)
    return fix_of(
        "unsafe",
        f"{_about(usage)} It is expected on `{device}`.",
        replace_methods(look.lines, site.node, before_copies(site.node), added),
        insert_line_before(look.lines, loop, made),
        insert_line_after(look.lines, loop, f"{name} = {kind}({fresh})"),
        *rename(look.lines, loop, usage.inside, fresh),
    )


def _added(site: Site, usage: Usage, look: Look, kind: Holds) -> str:
    """A product is of the kind of its factors, what is added to a tensor becomes of its kind."""
    is_product = site.statement.value is not site.node  # type: ignore[attr-defined]
    one = f"{detached(site, look)}{_as_scalar(site, usage, look)}"
    return one + (".double()" if is_product and kind == "float" else "")


def _as_scalar(site: Site, usage: Usage, look: Look) -> str:
    """The method that takes the dim from a tensor of shape (1,), which cannot be added to one
    without dims in place; none where there is no such dim."""
    seen = is_scalar(before_copies(site.node), usage.loop, site, look)
    return "" if seen else ".sum()"


def _about(usage: Usage) -> str:
    return f"`{usage.name}` is added up on the device and read once, after the loop."


def _device_of(usage: Usage, look: Look) -> str | None:
    """That the loop sends its data to, if it is known before the loop."""
    for each in walk(usage.loop.node):
        match each:
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name() | ast.Attribute() as to]):
                if last_name(to) == "device" and not usage.changes(to):
                    return look.source(to)
    return None


def _read_in(statement: ast.AST, site: Site, look: Look) -> ast.Call | None:
    """``x.item()`` of ``total += x.item() * len(x)``."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return None
    added = statement.value
    while isinstance(added, ast.BinOp) and isinstance(added.op, ast.Mult):
        if _is_number(added.right, site, look):
            added = added.left
        elif _is_number(added.left, site, look):
            added = added.right
        else:
            return None
    return added if is_read(added) else None


def _is_number(node: ast.expr, site: Site, look: Look) -> bool:
    """Which is at hand, and need not be read from a tensor."""
    match node:
        case ast.Constant(value=float()):
            return True
        case ast.Name():
            return look.value(node, site).kind == "number"
    return _is_whole(node)


def _are_whole(usage: Usage) -> bool:
    """Whether whole numbers stay whole by all that they are multiplied with."""
    return all(
        _is_whole(each)
        for _, above in usage.inside
        for each in _factors(above[-1].value)  # type: ignore[attr-defined]
        if not is_read(each)
    )


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.BinOp):
            stack += [node.left, node.right]
        else:
            yield node


def _is_whole(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def _kind_of_sum(first: list[ast.expr | None], added: set[Holds]) -> Holds:
    """Of the number that the sum is at its end."""
    starts = {type(each.value) if isinstance(each, ast.Constant) else None for each in first}
    if starts == {float}:
        return "float"
    if starts == {int} and len(added) == 1:
        return added.pop()
    return "unknown"


def _has_double(look: Look) -> bool:
    """Whether the file itself says that it computes on CUDA, and on nothing else that may lack
    float64."""
    kinds = kinds_of_devices(look)
    return CUDA <= kinds <= CUDA | CPU and not LACKS_DOUBLE.search(look.text)
