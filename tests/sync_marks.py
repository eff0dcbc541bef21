"""What the lines of ``tasks/waiting.py`` say of themselves."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hasten.records.profile import SyncSite

WAITING = Path(__file__).parent / "tasks" / "waiting.py"
_MARK = re.compile(r"# (\w+) ([\d.]+)$")

Found = dict[tuple[int, str], float]
"""Waits per step by line and kind."""


def planted_in(*things: type | Callable[..., Any]) -> Found:
    """By the marks in the source of some classes and functions."""
    marks: Found = {}
    for thing in things:
        lines, first = inspect.getsourcelines(thing)
        for number, line in enumerate(lines, first):
            if match := _MARK.search(line.rstrip()):
                marks[number, match[1]] = float(match[2])
    return marks


def found_in(sites: Iterable[SyncSite]) -> Found:
    """All of them have to be in that file."""
    counts: Counter[tuple[int, str]] = Counter()
    for site in sites:
        assert Path(site.place.path).resolve() == WAITING, site
        counts[site.place.line, site.kind] += site.per_step  # type: ignore[assignment]
    return dict(counts)  # type: ignore[arg-type]
