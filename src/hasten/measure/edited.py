"""Source files that are read from elsewhere, in this worker process and in those that it starts.

Method: Python's own loader is given other bytes for them, and no code that was compiled before. All
else is as ever: names of modules, ``__file__``, what lies beside it, the working folder.
"""

import linecache
import multiprocessing.spawn
import os
from collections.abc import Mapping
from importlib.abc import FileLoader
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from pathlib import Path
from typing import Any

_edited: dict[str, str] = {}
_own_data = SourceFileLoader.get_data
_own_stats = SourceFileLoader.path_stats
_own_preparation = multiprocessing.spawn.get_preparation_data


def read_instead(edited: Mapping[str, str]) -> None:
    """For the life of this process, and before any of the files is imported."""
    files = {os.path.realpath(path): instead for path, instead in edited.items()}
    if _edited and _edited != files:
        raise AssertionError("this process reads other files already")
    _edited.update(files)
    SourceFileLoader.get_data = _data  # type: ignore[method-assign]
    SourceFileLoader.path_stats = _stats  # type: ignore[method-assign]
    multiprocessing.spawn.get_preparation_data = _prepare


def _data(self: FileLoader, path: str) -> bytes:
    instead = _edited.get(os.path.realpath(path))
    if instead is None:
        return _own_data(self, path)
    content = Path(instead).read_bytes()
    lines = decode_source(content).splitlines(keepends=True)
    linecache.cache[path] = (len(content), None, lines, path)  # for whoever asks for source
    return content


def _stats(self: SourceFileLoader, path: str) -> Mapping[str, Any]:
    if os.path.realpath(path) in _edited:
        raise OSError(f"{path} is read from elsewhere")  # compiled code is then not looked for
    return _own_stats(self, path)


def _prepare(name: str) -> dict[str, Any]:
    """What a process that is not forked, such as one of a loader, is told before all else."""
    return {**_own_preparation(name), "hasten": _ReadInstead()}


class _ReadInstead:
    """Unpickling it has the other process read the same files from elsewhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        return read_instead, (dict(_edited),)
