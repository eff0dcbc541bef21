"""Whether tensors that a loop adds up may lie on more than one device: then there is none to add
them up on."""

import ast
import re
from collections.abc import Iterable

from hasten.scan.look import Look, argument, called_name, is_constant, keyword, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.trace import FOLLOWED

Places = frozenset[str]
HOST, DEVICE = frozenset(("host",)), frozenset(("device",))
TAKE_DEVICE = ("to", "cuda", "device", "set_device")
DATA = ("tensor", "batch")
NUMBERED = re.compile(r"\bcuda:\d+")


def may_be_several(tensors: Iterable[ast.expr], loop: Loop, site: Site, look: Look) -> bool:
    """By all that the loop gives the tensors, and by what the file does with devices."""
    found = [_places(each, loop, site, look, FOLLOWED) for each in tensors]
    return len(frozenset().union(*found)) > 1 or _uses_several(look)


def _uses_several(look: Look) -> bool:
    """``models[k].to(f"cuda:{k}")`` in a loop over ``k``, or two devices by their numbers."""
    if len(set(NUMBERED.findall(look.text))) > 1:
        return True
    return any(
        _changes(device, loop, look)
        for function in look.outline.functions
        for loop in function.loops
        for call in walk(loop.node)
        if isinstance(call, ast.Call)
        for device in _devices_of(call)
    )


def _devices_of(call: ast.Call) -> Iterable[ast.expr]:
    given = argument(call, 0, "device") if called_name(call) in TAKE_DEVICE else None
    return [each for each in (given, keyword(call, "device")) if each is not None]


def _changes(device: ast.expr, loop: Loop, look: Look, steps: int = FOLLOWED) -> bool:
    """Whether a turn may have another than the last one. ``x.device`` is where something else is,
    and so is ``x.to(y)``."""
    match device:
        case ast.Attribute(attr="device"):
            return False
        case ast.Name() if look.values.of(device, loop.function).kind in DATA:
            return False
    return any(
        binding.how != "value"
        or binding.value is None
        or not steps
        or _changes(binding.value, loop, look, steps - 1)
        for each in walk(device)
        if isinstance(each, ast.Name)
        for binding in loop.function.bindings.get(each.id, ())
        if loop.holds(binding.line)
    )


def _places(node: ast.expr | None, loop: Loop, site: Site, look: Look, steps: int) -> Places:
    """Where it may lie; what is not seen to be made on the host is taken for where the model is."""

    def inner(each: ast.expr | None) -> Places:
        return _places(each, loop, site, look, steps - 1) if steps else DEVICE

    match node:
        case ast.Name():
            bindings = site.function.bindings.get(node.id, ())
            given = [each.value for each in bindings if loop.holds(each.line)]
            return frozenset().union(*map(inner, given)) or DEVICE
        case ast.IfExp():
            return inner(node.body) | inner(node.orelse)
        case ast.Constant():
            return HOST
        case ast.BinOp():
            sides = inner(node.left), inner(node.right)
            return DEVICE if DEVICE in sides else sides[0] | sides[1]
        case ast.Call():
            return inner(held) if (held := _moves(node, look)) is not None else _made(node, look)
    return DEVICE


def _moves(call: ast.Call, look: Look) -> ast.expr | None:
    """``x`` of ``x.mean()``, which lies where ``x`` does."""
    held = receiver(call)
    is_method = not look.is_of_torch(call) and called_name(call) not in ("cpu", "cuda", "to")
    return held if is_method and isinstance(held, ast.Name | ast.Call | ast.BinOp) else None


def _made(call: ast.Call, look: Look) -> Places:
    if called_name(call) == "cpu" or look.makes_tensor(call):
        return HOST
    return HOST if any(is_constant(each, "cpu") for each in _devices_of(call)) else DEVICE
