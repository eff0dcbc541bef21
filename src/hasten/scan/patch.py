"""A text with edits put into it, and the difference that they make."""

import difflib
import re
from collections.abc import Iterable, Sequence

from hasten.records.scan import Edit
from hasten.scan.lines import Lines

Span = tuple[int, int, str]
"""From, to, and what is put there."""
NO_NEWLINE = "\\ No newline at end of file\n"


def spans(lines: Lines, edits: Iterable[Edit]) -> list[Span]:
    """In order, each once. Raises ValueError if the text has no such place."""
    return _in_order((*lines.span(each), each.text) for each in edits)


def _in_order(changes: Iterable[Span]) -> list[Span]:
    """Each once; those of one place stay as they are given."""
    return sorted(dict.fromkeys(changes), key=lambda each: each[:2])


def clash(first: Sequence[Span], second: Sequence[Span]) -> bool:
    """Whether the two want to change the same text, and not in the same way. What is put between
    two characters goes with anything that does not change both of them."""
    return any(
        a != b and (max(a[0], b[0]) < min(a[1], b[1]) or _inside(a, b) or _inside(b, a))
        for a in first
        for b in second
    )


def _inside(inserted: Span, other: Span) -> bool:
    return inserted[0] == inserted[1] and other[0] < inserted[0] < other[1]


def patched(text: str, changes: Iterable[Span]) -> str:
    """``changes`` do not clash."""
    parts, last = [], 0
    for start, end, new in _in_order(changes):
        parts += [text[last:start], new]
        last = end
    return "".join([*parts, text[last:]])


def difference(path: str, before: str, after: str) -> str:
    """Unified, as ``patch -p1`` and ``git apply`` take it."""
    name = path.lstrip("/")
    found = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(each if each.endswith("\n") else f"{each}\n{NO_NEWLINE}" for each in found)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)
