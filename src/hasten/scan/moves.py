"""What methods make of a tensor, and whether they move it to a device."""

import ast

from hasten.scan import vocabulary
from hasten.scan.value import ARRAY, DEVICE_TENSOR, HOST_TENSOR, NUMBER, UNKNOWN, Value


def of_tensor_method(base: Value, name: str, node: ast.Call) -> Value:
    if name == "cpu":
        return HOST_TENSOR
    if name == "cuda":
        return DEVICE_TENSOR
    if name == "to":
        return _moved(base, node)
    if name == "numpy":
        return ARRAY
    if name in ("item", "size", "dim", "numel", "stride"):
        return NUMBER
    if name == "tolist":
        return Value("list", "host", "number")
    if name in ("chunk", "split", "unbind"):
        return Value("list", base.where, "tensor")
    if name in vocabulary.TENSOR_GIVES_NO_TENSOR or name == "keys":
        return UNKNOWN
    return base


def _moved(base: Value, node: ast.Call) -> Value:
    """``.to(...)``: a device, a type, or another tensor."""
    target = _target(node)
    if target is None:
        return base
    if isinstance(target, ast.Constant) and target.value == "cpu":
        return HOST_TENSOR
    return DEVICE_TENSOR if _names_device(target) else base


def moves_to_device(node: ast.Call) -> bool:
    """Whether it is ``x.cuda()`` or ``x.to(device)``, as far as names tell."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        return True
    target = _target(node)
    if target is None or (isinstance(target, ast.Constant) and target.value == "cpu"):
        return False
    return _names_device(target)


def _target(node: ast.Call) -> ast.expr | None:
    given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "device")]
    return given[0] if given else None


def _names_device(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.Subscript(value=held) | ast.IfExp(body=held):
            return _names_device(held)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return "device" in name.lower()
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return "dev" in name.lower() or name in ("rank", "local_rank", "gpu", "gpu_id", "cuda")
    return False
