"""Which parameters are tensors, by what their function does with them: hardly anything else has
``unsqueeze``, and what is handed to ``torch.sum`` is one.

A use counts while the name still stands for the parameter: above the first line that gives it
another value.
"""

import ast
from collections.abc import Iterator

from hasten.scan import vocabulary
from hasten.scan.outline import Function, Outline
from hasten.scan.vocabulary import words

TELLING = vocabulary.ONLY_TENSORS_HAVE | words(
    "dim numel is_cuda matmul backward topk scatter_add expand index_add clone unbind"
)
"""Methods that only tensors have."""
TELLING_WITH_NUMBERS = words("size view transpose unfold chunk new_full")
"""And these, where they are given an argument."""
REDUCTIONS = words("sum mean max min std var prod norm any all argmin cumsum sort")
"""And these with ``dim``; arrays say ``axis``."""
REDUCED = REDUCTIONS | words("float double detach abs exp log sqrt")
ASKED = TELLING | TELLING_WITH_NUMBERS | REDUCTIONS | {"to", "item"}
OF_TWO = words("matmul mm bmm mul add sub div dot maximum minimum eq where cosine_similarity")
"""Functions of torch whose second argument is a tensor as well; losses are."""


def tensor_parameters(function: Function, outline: Outline) -> frozenset[str]:
    parameters, bindings = function.parameters, function.bindings
    found: set[str] = set()
    if not parameters:
        return frozenset()
    imports = outline.imports
    for site in function.calls:
        called = site.node.func
        if isinstance(called, ast.Attribute):
            if called.attr not in ASKED and isinstance(called.value, ast.Name):
                module = called.value.id
                if imports.get(module, module) not in vocabulary.TORCH:
                    continue  # as most calls are: they tell nothing
            shown = _tensors_of(site.node, called, outline)
        elif isinstance(called, ast.Name) and called.id in imports:
            shown = _given_to_torch(site.node, called, outline)
        else:
            continue
        for used in (side for each in shown for side in _sides(each)):
            name = _parameter(used, parameters)
            if name and all(each.line >= used.lineno for each in bindings.get(name, ())):
                found.add(name)
    return frozenset(found)


def _sides(used: ast.expr) -> tuple[ast.expr, ...]:
    """Both of ``a - b`` and of ``(a - b) ** 2``, of which each is a tensor if the whole is."""
    match used:
        case ast.BinOp(left=left, op=ast.Pow()):
            return _sides(left)
        case ast.BinOp(left=ast.Name() as left, op=ast.Sub(), right=ast.Name() as right):
            return left, right
    return (used,)


def _parameter(used: ast.expr, parameters: dict[str, ast.arg]) -> str:
    """Whose part or which it is; empty where it is none."""
    while isinstance(used, ast.Subscript):
        used = used.value
    return used.id if isinstance(used, ast.Name) and used.id in parameters else ""


def _tensors_of(
    call: ast.Call, called: ast.Attribute, outline: Outline
) -> list[ast.expr] | tuple[()]:
    """What a call shows to be a tensor."""
    if called.attr == "item":
        return [] if isinstance(called.value, ast.Name) else list(_reduced(called.value))
    if called.attr in ASKED and _is_telling(called, call) and not _is_module(called.value, outline):
        return [called.value]
    if isinstance(called.value, ast.Name):
        module = called.value.id
        if outline.imports.get(module, module) not in vocabulary.TORCH:
            return ()
    elif not isinstance(called.value, ast.Attribute):
        return ()
    return _given_to_torch(call, called, outline)


def _is_module(node: ast.expr, outline: Outline) -> bool:
    """``torch`` of ``torch.sum(x, dim=1)``."""
    return isinstance(node, ast.Name) and (node.id == "torch" or node.id in outline.imports)


def _reduced(read: ast.expr) -> Iterator[ast.expr]:
    """``a``, ``b`` of ``(a == b).sum()``, of which a number is read."""
    match read:
        case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in REDUCED:
            yield from _reduced(held)
        case ast.Compare(left=left, comparators=[right]):
            yield from _reduced(left)
            yield from _reduced(right)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            yield from _reduced(left)
            yield from _reduced(right)
        case ast.Name():
            yield read


def _given_to_torch(
    call: ast.Call, called: ast.Name | ast.Attribute, outline: Outline
) -> list[ast.expr] | tuple[()]:
    """``a`` of ``torch.exp(a)``."""
    if not call.args:
        return ()
    module, _, name = outline.dotted(called).rpartition(".")
    if module not in vocabulary.TORCH or name in vocabulary.TAKE_NO_TENSOR or name[:1].isupper():
        return ()
    takes_two = name in OF_TWO or name.endswith(("loss", "entropy"))
    return call.args[: 1 + takes_two]


def _is_telling(called: ast.Attribute, call: ast.Call) -> bool:
    name = called.attr
    if name in TELLING:
        return True
    if name in TELLING_WITH_NUMBERS:
        return bool(call.args)
    if name in REDUCTIONS:
        return any(word.arg in ("dim", "keepdim") for word in call.keywords)
    return name == "to" and isinstance(called.value, ast.Subscript)
