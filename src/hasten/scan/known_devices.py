"""Which kinds of devices a file computes on, as far as it says so itself."""

import ast
from collections.abc import Iterable

from hasten.scan.look import Look, argument, called_name, is_own_attribute, keyword
from hasten.scan.moves import moves_to_device
from hasten.scan.nodes import walk
from hasten.scan.outline import Binding, Function, Site
from hasten.scan.trace import FOLLOWED

Kinds = frozenset[str]
NONE: Kinds = frozenset()
CPU: Kinds = frozenset(("cpu",))
CUDA: Kinds = frozenset(("cuda",))
UNKNOWN: Kinds = frozenset(("unknown",))
"""What somebody else decides: a parameter, a setting, another file."""
HAVE_DEVICES = ("tensor", "batch", "module")


def kinds_of_devices(look: Look) -> Kinds:
    """By all that is sent to a device or made there. What is sent under a condition may as well
    stay on the CPU."""
    found = NONE
    for function in look.outline.functions:
        for site in function.calls:
            for device in _devices_of(site.node):
                found |= _kinds(device, function, look)
                found |= CPU if _is_conditional(site) else NONE
    return found


def _devices_of(call: ast.Call) -> list[ast.expr]:
    if called_name(call) == "cuda" and isinstance(call.func, ast.Attribute):
        return [ast.Constant("cuda")]
    if called_name(call) == "to":
        sent = argument(call, 0, "device") if moves_to_device(call) else None
    else:
        sent = keyword(call, "device")
    return [sent] if sent is not None else []


def _is_conditional(site: Site) -> bool:
    """``if __name__ == "__main__"`` is none of the conditions."""
    if any(
        isinstance(part, ast.IfExp | ast.BoolOp) and site.node in walk(part)
        for part in walk(site.statement)
    ):
        return True
    blocks = site.block.outwards() if site.block is not None else ()
    return any(
        isinstance(each.node, ast.If) and "__name__" not in ast.dump(each.node.test)
        for each in blocks
    )


def _kinds(node: ast.expr | None, function: Function, look: Look, steps: int = FOLLOWED) -> Kinds:
    def inner(each: ast.expr | None, scope: Function = function) -> Kinds:
        return _kinds(each, scope, look, steps - 1) if steps else UNKNOWN

    def given(bindings: Iterable[tuple[Binding, Function]]) -> Kinds:
        """By all that a name may stand for."""
        found = [inner(each.value, at) if each.how == "value" else UNKNOWN for each, at in bindings]
        return NONE.union(*found) if found else UNKNOWN

    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=bool()):
            return UNKNOWN
        case ast.Constant(value=int()):
            return CUDA
        case ast.Constant(value=str(name)) | ast.JoinedStr(values=[ast.Constant(value=name), *_]):
            return frozenset((str(name).partition(":")[0],))
        case ast.BinOp():
            return inner(node.left)
        case ast.IfExp():
            return inner(node.body) | inner(node.orelse)
        case ast.Call(args=[first, *_]) if look.dotted(node.func) == "torch.device":
            return inner(first)
        case ast.Name():
            _, scope = look.values.definition(node.id, node.lineno, function)
            if scope is None or node.id in scope.parameters:
                return UNKNOWN
            return given((each, scope) for each in scope.bindings.get(node.id, ()))
        case ast.Attribute() if is_own_attribute(node) and function.owner is not None:
            return given(function.owner.attributes.get(node.attr, ()))
        case ast.Attribute(attr="device", value=held):
            of_another = look.values.of(held, function).kind in HAVE_DEVICES
            return NONE if of_another or called_name(held) == "next" else UNKNOWN
    return UNKNOWN
