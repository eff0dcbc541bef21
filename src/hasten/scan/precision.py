"""What several rules ask about autocast and gradient scaling."""

import ast
from collections.abc import Iterator

from hasten.scan.look import Look, argument, called_name, is_constant, keyword
from hasten.scan.outline import Function, Site

AUTOCASTS = ("autocast", "amp_autocast")


def is_autocast(node: ast.AST, look: Look) -> bool:
    """Whether it is torch's own, of whichever module, or a function of that name; not a method, as
    of Accelerate, which takes what it does from elsewhere."""
    if not isinstance(node, ast.Call) or called_name(node) != "autocast":
        return False
    return isinstance(node.func, ast.Name) or look.dotted(node.func).startswith("torch.")


def is_switched_off(call: ast.Call, look: Look) -> bool:
    if is_constant(keyword(call, "enabled"), False):
        return True
    old = "cuda.amp" in look.dotted(call.func)
    return old and bool(call.args) and is_constant(call.args[0], False)


def dtype_of(call: ast.Call, function: Function, look: Look) -> str:
    """The dtype that a call of autocast names, dotted; empty for none, "?" for one that is not
    known."""
    dtype = argument(call, 1, "dtype")
    if dtype is None:
        return ""
    given = look.values.given(dtype, function)
    return (look.dotted(given) if given is not None else "") or "?"


def autocasts_over(site: Site, look: Look) -> Iterator[ast.Call]:
    """Those that are on at a place, from the inside, as far as its function tells."""
    blocks = site.block.outwards() if site.block is not None else ()
    around = [
        item.context_expr
        for block in blocks
        if isinstance(block.node, ast.With)
        for item in block.node.items
    ]
    around += getattr(site.function.node, "decorator_list", [])
    for each in around:
        if (
            isinstance(each, ast.Call)
            and called_name(each) in AUTOCASTS
            and not is_switched_off(each, look)
        ):
            yield each
