"""Whose line of Python is at work, and what is written there."""

import linecache
import sysconfig
from functools import cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
import torch

from hasten.records.finding import Place
from hasten.task.places import is_hastens, shown

_STDLIB = Path(sysconfig.get_path("stdlib"))
_TOOLS = (Path(torch.__file__).parent, Path(np.__file__).parent, Path(__file__).parent)
"""With the room that watches."""


class Line(NamedTuple):
    filename: str
    number: int

    @property
    def place(self) -> Place:
        return Place(path=shown(self.filename), line=self.number)

    @property
    def code(self) -> str:
        return linecache.getline(*self).strip()


def line_behind(frame: FrameType) -> Line:
    """The innermost one that is not of torch, NumPy or Python itself, which wait because someone
    asked them to: the user's, or that of a library. It is Hasten's own where Hasten asked, as for
    an optimizer's step."""
    while frame.f_back is not None and _is_a_tool(frame.f_code.co_filename):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno)


def line_below(file: str, frame: FrameType) -> Line | None:
    """The innermost one of the user's among those that the innermost frame of ``file`` called;
    None where they are all of torch or Hasten."""
    each: FrameType | None = frame
    while each is not None and each.f_code.co_filename != file:
        if _is_users(each.f_code.co_filename):
            return Line(each.f_code.co_filename, each.f_lineno)
        each = each.f_back
    return None


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


@cache
def _is_a_tool(filename: str) -> bool:
    path = Path(filename)
    if filename.startswith("<frozen") or any(map(path.is_relative_to, _TOOLS)):
        return True
    installed = {"site-packages", "dist-packages"} & {*path.parts}
    return path.is_relative_to(_STDLIB) and not installed


@cache
def _is_users(filename: str) -> bool:
    return not _is_a_tool(filename) and not is_hastens(Path(filename))
