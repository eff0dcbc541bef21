"""Where a value comes from and what a loop does to it, within one function."""

import ast
from collections.abc import Iterator

from hasten.scan.nodes import walk
from hasten.scan.outline import Block, Function, Loop, Site

FOLLOWED = 8
"""Steps back that are taken before giving up."""


def last_name(node: ast.AST | None) -> str:
    """``weight`` of ``self.layer.weight``; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def root_name(node: ast.AST | None) -> ast.Name | None:
    """``out`` of ``out[0].detach().cpu()``."""
    while node is not None and not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return None
    return node


def last_given(node: ast.AST | None, function: Function) -> ast.expr | None:
    """What a name was last given above its line, also where that is one of several values."""
    if not isinstance(node, ast.Name):
        return None
    above = [
        each
        for each in function.bindings.get(node.id, ())
        if each.line < node.lineno and each.how in ("value", "item")
    ]
    return above[-1].value if above else None


def operands(node: ast.AST | None) -> list[ast.expr]:
    """What a call is about: the receiver of a method and its arguments."""
    if isinstance(node, ast.Call):
        held = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*held, *node.args]
    return [node.left, node.right] if isinstance(node, ast.BinOp) else []


def names(node: ast.AST) -> Iterator[str]:
    """All plain names that are read in a small expression."""
    for each in walk(node):
        if isinstance(each, ast.Name):
            yield each.id


def siblings(site: Site) -> list[ast.stmt]:
    """The statements of the body that the place stands in."""
    return body_of(site.block, site.function)


def body_of(block: Block | None, function: Function) -> list[ast.stmt]:
    """The statements of a block, or of the function where there is none."""
    if block is not None:
        body = getattr(block.node, block.branch, [])
    else:
        body = getattr(function.node, "body", [])
    return body if isinstance(body, list) else []


def following(site: Site) -> list[ast.stmt]:
    """The statements after the place's own, in the same body."""
    body = siblings(site)
    return body[body.index(site.statement) + 1 :] if site.statement in body else []


def is_bound_in(name: str, loop: Loop) -> bool:
    """Whether a loop gives the name a value, in its header or its body."""
    return any(loop.holds(each.line) for each in loop.function.bindings.get(name, ()))


def varies(node: ast.AST, loop: Loop) -> bool:
    """Whether the expression reads a name that the loop gives a value."""
    return any(is_bound_in(each, loop) for each in names(node))


def derived(loop: Loop, source: str) -> set[str]:
    """A name, and those that the loop's body computes from it."""
    given = [
        (name, set(names(each.value)))
        for name, bindings in loop.function.bindings.items()
        for each in bindings
        if each.value is not None and each.how in ("value", "item") and loop.holds(each.line)
    ]
    found = {source}
    for _ in range(FOLLOWED):
        more = {name for name, read in given if not found.isdisjoint(read)} - found
        if not more:
            break
        found |= more
    return found


def calls_in(loop: Loop) -> list[Site]:
    """The calls of a loop's body and of the loops in it."""
    return loop.function.calls[loop.first_call : loop.end_call]


def site_of(call: ast.Call, function: Function) -> Site | None:
    return next((each for each in function.calls if each.node is call), None)


def loop_of(site: Site) -> Loop | None:
    """The loop that a ``for`` or a comprehension is."""
    return next((each for each in site.function.loops if each.node is site.node), None)


def counter_of(loop: ast.For) -> str:
    """The name that counts turns: ``i`` of ``for i, x in enumerate(xs)``; empty for none."""
    target = loop.target
    if isinstance(target, ast.Tuple) and _counts_others(loop.iter):
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else ""


def _counts_others(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "enumerate"
