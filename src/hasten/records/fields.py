"""The line of documentation that stands under a field, at run time."""

import ast
import functools
import inspect
import textwrap
from itertools import pairwise


def field_docs(kind: type) -> dict[str, str]:
    """The string under each field of a class, as its source has it, on one line.

    A field without one, and a class whose source is not at hand (typed at a prompt), has none.
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= _own_docs(each)
    return found


@functools.cache
def _own_docs(kind: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }
