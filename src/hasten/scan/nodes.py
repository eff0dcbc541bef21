"""Going through the nodes of a tree."""

import ast
from collections.abc import Iterator

WITHOUT_PARTS = frozenset((ast.Name, ast.Constant))
CONTEXTS = frozenset((ast.Load, ast.Store, ast.Del))


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, the upper ones first: ``ast.walk`` without what tells only whether a
    name is read or written, which is half of the nodes."""
    found = [node]
    for each in found:  # which grows on the way
        yield each
        if each.__class__ in WITHOUT_PARTS:
            continue
        for name in each._fields:
            part = getattr(each, name, None)
            if part.__class__ is list:
                found += [one for one in part if isinstance(one, ast.AST)]
            elif isinstance(part, ast.AST) and part.__class__ not in CONTEXTS:
                found.append(part)
