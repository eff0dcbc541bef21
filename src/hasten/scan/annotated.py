"""What the annotations of a function tell, and a type checker by them."""

import ast
import re
from collections.abc import Iterator

from hasten.scan.look import Look
from hasten.scan.nodes import parts_of
from hasten.scan.outline import Function, Site
from hasten.scan.trace import FOLLOWED

TENSOR = re.compile(r"Tensor\b")


def annotation_of(name: str, function: Function) -> ast.expr | None:
    if name in function.parameters:
        return function.parameters[name].annotation
    own = (said for target, said in _own_annotations(function) if target == name)
    return next(own, None)


def _own_annotations(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Of names that it gives values."""
    stack = list(parts_of(function.node))
    while stack:
        match stack.pop(0):
            case ast.AnnAssign(target=ast.Name(id=target), annotation=said):
                yield target, said
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.expr():
                pass  # of names of its own, or without any annotation
            case other:
                stack += parts_of(other)


def is_known_tensor(node: ast.expr | None, site: Site, look: Look) -> bool:
    """Whether a type checker that looks at the function takes it for a tensor. Of what a module
    gives it knows nothing, nor of functions without annotations."""
    return _is_checked(site.function) and _is_known(node, site.function, look, FOLLOWED)


def _is_checked(function: Function) -> bool:
    return (
        _says_what_it_gives(function)
        or any(each.annotation is not None for each in function.parameters.values())
        or any(True for _ in _own_annotations(function))
    )


def _says_what_it_gives(function: Function) -> bool:
    return getattr(function.node, "returns", None) is not None


def _says_tensor(annotation: ast.expr | None, look: Look) -> bool:
    return annotation is not None and bool(TENSOR.search(look.source(annotation)))


def _is_known(node: ast.expr | None, function: Function, look: Look, steps: int) -> bool:
    if not steps:
        return False
    match node:
        case ast.Name():
            return _is_known_name(node, function, look, steps - 1)
        case ast.BinOp(left=ast.Constant(), right=inner) | ast.BinOp(left=inner):
            return _is_known(inner, function, look, steps - 1)
        case ast.Compare(left=inner) | ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return _is_known(inner, function, look, steps - 1)
        case ast.Call(func=ast.Attribute(value=inner)) if not look.is_of_torch(node):
            return _is_known(inner, function, look, steps - 1)
        case ast.Call(func=func):
            named = look.outline.function_named(look.dotted(func))
            return look.is_of_torch(node) or (
                named is not None and _says_tensor(getattr(named.node, "returns", None), look)
            )
    return False


def _is_known_name(name: ast.Name, function: Function, look: Look, steps: int) -> bool:
    annotation = annotation_of(name.id, function)
    if annotation is not None:
        return _says_tensor(annotation, look)
    binding, _ = look.values.definition(name.id, name.lineno, function)
    return (
        binding is not None
        and binding.how == "value"
        and _is_known(binding.value, function, look, steps)
    )
