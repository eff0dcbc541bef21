"""What the lines of ``tasks/waiting.py`` say of themselves, and waits that are only told of."""

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from hasten.records.profile import SyncSite
from hasten.step.watch import PROTOTYPE, SYNC

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


def pretend_sync_mode(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """In place of the switch of a device that is not there; all that it was set to."""
    modes: list[object] = [0]

    def switch(to: object) -> None:
        warnings.warn(PROTOTYPE, stacklevel=1)
        modes.append(to)

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", switch)
    return modes


def wait() -> None:
    """What torch tells where a device is waited for."""
    warnings.warn(f"{SYNC} (Triggered internally at CUDAFunctions.cpp)", stacklevel=1)
