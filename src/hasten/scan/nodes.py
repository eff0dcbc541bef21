"""Going through the nodes of a tree."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from hasten.scan.vocabulary import words

WITHOUT_PARTS = frozenset((ast.Name, ast.Constant))
NO_NODES = words(
    "ctx id attr arg name asname module level kind conversion type_comment tag is_async simple"
    " rest kwd_attrs"
)
"""Fields that hold text, a number, or whether a name is read or written."""
PARTS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: ()
    if kind in WITHOUT_PARTS
    else tuple(name for name in kind._fields if name not in NO_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""In which fields of each kind other nodes stand."""
WITH_OTHERS = frozenset(("keys", "kw_defaults", "names"))
"""Lists in which something else may stand beside nodes: the key of ``**more`` is None."""


LISTED: dict[type[ast.AST], Callable[[Any], list[ast.AST]]] = {
    ast.Name: lambda node: [],
    ast.Constant: lambda node: [],
    ast.Attribute: lambda node: [node.value],
    ast.Call: lambda node: [node.func, *node.args, *node.keywords],
    ast.keyword: lambda node: [node.value],
    ast.Subscript: lambda node: [node.value, node.slice],
    ast.BinOp: lambda node: [node.left, node.op, node.right],
    ast.UnaryOp: lambda node: [node.op, node.operand],
    ast.BoolOp: lambda node: [node.op, *node.values],
    ast.Compare: lambda node: [node.left, *node.ops, *node.comparators],
    ast.Tuple: lambda node: [*node.elts],
    ast.List: lambda node: [*node.elts],
    ast.Expr: lambda node: [node.value],
    ast.Assign: lambda node: [*node.targets, node.value],
    ast.If: lambda node: [node.test, *node.body, *node.orelse],
}
"""The kinds that there are most of, in the order of their fields."""


def parts_of(node: ast.AST) -> list[ast.AST]:
    """``ast.iter_child_nodes`` without what tells only whether a name is read or written."""
    listed = LISTED.get(node.__class__)
    if listed is not None:
        return listed(node)
    found: list[ast.AST] = []
    for name in PARTS[node.__class__]:
        part = getattr(node, name)
        if part.__class__ is not list:
            if isinstance(part, ast.AST):
                found.append(part)
        elif name in WITH_OTHERS:
            found += [one for one in part if isinstance(one, ast.AST)]
        else:
            found += part
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, the upper ones first."""
    found = [node]
    for each in found:  # which grows on the way
        yield each
        if each.__class__ not in WITHOUT_PARTS:
            found += parts_of(each)
