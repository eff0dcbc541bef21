"""Going through the nodes of a tree."""

import ast
from collections.abc import Iterator

WITHOUT_PARTS = frozenset((ast.Name, ast.Constant))
CONTEXTS = frozenset((ast.Load, ast.Store, ast.Del))


def parts_of(node: ast.AST) -> list[ast.AST]:
    """``ast.iter_child_nodes`` without what tells only whether a name is read or written."""
    found: list[ast.AST] = []
    if node.__class__ not in WITHOUT_PARTS:
        for name in node._fields:
            part = getattr(node, name, None)
            if part.__class__ is list:
                found += [one for one in part if isinstance(one, ast.AST)]
            elif isinstance(part, ast.AST) and part.__class__ not in CONTEXTS:
                found.append(part)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, the upper ones first."""
    found = [node]
    for each in found:  # which grows on the way
        yield each
        if each.__class__ not in WITHOUT_PARTS:
            found += parts_of(each)
