"""Whose line of Python is at work, and what is written there."""

import linecache
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, takewhile
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
import torch

from hasten.records.finding import Place
from hasten.task.places import is_ours, shown

_STDLIB = Path(sysconfig.get_path("stdlib"))
_TOOLS = (Path(torch.__file__).parent, Path(np.__file__).parent)


class Line(NamedTuple):
    filename: str
    number: int

    @property
    def place(self) -> Place:
        return Place(path=shown(self.filename), line=self.number)

    @property
    def code(self) -> str:
        return linecache.getline(*self).strip()


def users_line(frame: FrameType) -> Line:
    """The innermost one of the user's, libraries included; where there is none, as in an
    optimizer's step, Hasten's own."""
    chosen = _innermost(frame, _is_users) or _innermost(frame, _is_hastens) or frame
    return Line(chosen.f_code.co_filename, chosen.f_lineno)


def line_below(file: str, frame: FrameType) -> Line | None:
    """The innermost one of the user's among those that the innermost frame of ``file`` called;
    None where they are all of torch or Hasten."""
    below = takewhile(lambda each: each.f_code.co_filename != file, _outwards(frame))
    chosen = next((each for each in below if _is_users(each.f_code.co_filename)), None)
    return Line(chosen.f_code.co_filename, chosen.f_lineno) if chosen is not None else None


def expression(frame: FrameType) -> str:
    """The text of the call that a frame is busy with."""
    code = frame.f_code
    place = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    first, last, start, end = place
    if first is None or last is None or start is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, number) for number in range(first, last + 1)]
    if not all(lines):
        return ""
    encoded = [line.encode() for line in lines]  # columns count bytes
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    return b"".join(encoded).decode()


def _innermost(frame: FrameType, wanted: Callable[[str], bool]) -> FrameType | None:
    return next((each for each in _outwards(frame) if wanted(each.f_code.co_filename)), None)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@cache
def _is_hastens(filename: str) -> bool:
    return is_ours(filename)


@cache
def _is_users(filename: str) -> bool:
    """Not of Hasten, torch, NumPy or Python itself: these wait because someone asked them to."""
    path = Path(filename)
    if filename.startswith("<frozen") or _is_hastens(filename):
        return False
    if path.is_relative_to(_STDLIB):
        return bool({"site-packages", "dist-packages"} & {*path.parts}) and not _of_a_tool(path)
    return not _of_a_tool(path)


def _of_a_tool(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _TOOLS)
