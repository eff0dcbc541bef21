"""``# hasten: ignore[HST201]``: what a line asks not to be told."""

import io
import re
import tokenize

MARK = "hasten:"
IGNORE = re.compile(r"#\s*hasten:\s*ignore\b\s*(?:\[([^\]]*)\])?")

Ignored = dict[int, tuple[str, ...]]
"""Codes, or names of rules, by line; none where the comment names none."""


def ignored_in(text: str) -> Ignored:
    """Only comments count, not text that looks like one."""
    if MARK not in text:
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
