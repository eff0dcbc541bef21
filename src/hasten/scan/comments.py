"""``# hasten: ignore[HST201]``: what a line asks not to be told."""

import ast
import io
import re
import tokenize
from collections.abc import Collection

IGNORE = re.compile(r"#\s*hasten:\s*ignore\b\s*(?:\[([^\]]*)\])?", re.IGNORECASE)

Ignored = dict[int, tuple[str, ...]]
"""Codes, or names of rules, by line; none where the comment names none."""


def ignored_in(text: str) -> Ignored:
    """Only comments count, not text that looks like one."""
    if IGNORE.search(text) is None:
        return {}
    found: Ignored = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            said = IGNORE.search(token.string) if token.type == tokenize.COMMENT else None
            if said is not None:
                codes = tuple(filter(None, re.split(r"[\s,]+", said[1] or "")))
                found[token.start[0]] = codes
    except (tokenize.TokenError, SyntaxError):  # what ast takes, this does nearly always
        pass
    return found


def statements_at(lines: Collection[int], tree: ast.AST) -> dict[int, tuple[int, int]]:
    """First and last line of the statement that each line belongs to; of one with a body only
    what stands before that."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Match):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or 0
            span = node.lineno, max(node.lineno, last)
            found.update((line, span) for line in range(span[0], span[1] + 1) if line in lines)
    return found
