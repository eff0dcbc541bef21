"""Places in source files: which of them are the user's, and how they are shown."""

import linecache
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType

import torch

from hasten.records.finding import Place

HASTEN = Path(__file__).parents[1]
TORCH = Path(torch.__file__).parent
PYTHON = Path(sysconfig.get_path("stdlib"))


def shown(filename: str) -> str:
    """Relative to the working folder where the file is inside of it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def is_hastens(path: Path) -> bool:
    """The gallery is a user's, as far as users are concerned."""
    return path.is_relative_to(HASTEN) and not path.is_relative_to(HASTEN / "gallery")


@cache
def is_users(filename: str) -> bool:
    """Not of torch, of Hasten or of Python itself, nor made at run time."""
    path = Path(filename)
    if filename.startswith("<") or path.is_relative_to(TORCH) or is_hastens(path):
        return False
    return "site-packages" in path.parts or not path.is_relative_to(PYTHON)


def users_line(frame: FrameType | None, until: str) -> tuple[str, int] | None:
    """File and line of the innermost frame that is the user's, from ``frame`` outwards as far as
    the first one of the file ``until``: whoever called that did not ask for what is done now."""
    while frame is not None and frame.f_code.co_filename != until:
        if is_users(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def place_and_code(line: tuple[str, int]) -> tuple[Place, str]:
    """A line as it is shown, and its text."""
    filename, number = line
    return Place(path=shown(filename), line=number), linecache.getline(filename, number).strip()
