"""Values into one digest: each with its type and its length, so that no two read the same."""

import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np

from hasten.data.cache.keys import arrays, code, containers, plain, tables
from hasten.data.cache.keys.files import FileDigests, Remembered
from hasten.errors import HastenError

FIX = (
    "Pass what it depends on as numbers, texts, arrays or files, "
    "or say what of the arguments decides the result: cached(function, key=...)."
)


LARGE = 1 << 16
"""Bytes: what is smaller is gathered first, since a key is made of hundreds of small pieces."""


class Digester:
    """Feed it values, then ask for ``hexdigest``. ``files`` are those that it has read."""

    def __init__(self, file_digests: FileDigests) -> None:
        self._digest = hashlib.sha256()
        self._waiting = bytearray()
        self._file_digests = file_digests
        self._seen: dict[int, tuple[int, object]] = {}
        self._inside: dict[int, int] = {}
        self.files: dict[Path, Remembered] = {}

    def hexdigest(self) -> str:
        self._flush()
        return self._digest.hexdigest()

    def write(self, tag: str, *parts: bytes | memoryview | str) -> None:
        """``tag`` is one of ours, never a user's word; the parts may be any."""
        self._waiting += tag.encode()
        for part in parts:
            content = part.encode() if isinstance(part, str) else part
            size = len(content) if isinstance(content, bytes) else content.nbytes
            self._waiting += b":%d:" % size
            if size > LARGE:
                self._flush()
                self._digest.update(content)
            else:
                self._waiting += content
        self._waiting += b";"

    def _flush(self) -> None:
        self._digest.update(self._waiting)
        self._waiting = bytearray()

    def feed(self, value: object, where: str) -> None:
        """``where`` names the value in errors, such as ``argument 'tree'``."""
        form = plain.FORMS.get(type(value))
        if form is not None:
            self.write(type(value).__name__, form(value))
            if type(value) is str:
                plain.feed_file_named(self, value, where)
            return
        exact = _EXACT.get(type(value))
        if exact is not None and exact(self, value, where):
            return
        for feed in _feeders():
            if feed(self, value, where):
                return
        self.refuse(where, value)

    def feed_file(self, path: Path, where: str) -> None:
        try:
            found = self._file_digests.digest(path)
        except OSError as error:
            raise HastenError(
                f"{where} is the file {path}, which cannot be read: {error.strerror}.",
                fix="Name a file that is there; a path that is only a name can be passed as str.",
            ) from error
        self.files[path] = found
        self.write("file", found.sha256)

    def is_new(self, thing: object) -> bool:
        """Functions and classes refer to one another in circles: each is told once."""
        known = self._seen.get(id(thing))
        if known is not None:
            self.write("again", str(known[0]))
            return False
        self._seen[id(thing)] = (len(self._seen), thing)  # kept, so that no other gets its address
        return True

    @contextmanager
    def inside(self, container: object) -> Iterator[bool]:
        """Whether what is in it is to be told: not where it leads back to a container that is
        being told, such as a table of functions that look something up in that table."""
        around = self._inside.get(id(container))
        if around is not None:
            self.write("circle", str(around))
            yield False
            return
        self._inside[id(container)] = len(self._inside)
        try:
            yield True
        finally:
            del self._inside[id(container)]

    def apart(self, value: object, where: str) -> str:
        """The digest of one value by itself, for those that have no order among them."""
        other = Digester(self._file_digests)
        other.files = self.files
        other._inside = self._inside
        other.feed(value, where)
        return other.hexdigest()

    def refuse(self, where: str, value: object, why: str = "has no digest") -> NoReturn:
        kind = type(value)
        raise HastenError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which {why}.", fix=FIX
        )


Feeder = Callable[[Digester, object, str], bool]
"""Whether the value was one of its kind, and is told."""

_EXACT: dict[type, Feeder] = {
    **dict.fromkeys((list, tuple, dict), containers.feed_container),
    **dict.fromkeys((types.FunctionType, types.ModuleType, type), code.feed_code),
    np.ndarray: arrays.feed_numpy,
}
"""The most frequent, found at once."""


def _feeders() -> list[Feeder]:
    """Those of packages that are not loaded have nothing to see: no value can be theirs."""
    found: list[Feeder] = [arrays.feed_numpy]
    if sys.modules.get("torch") is not None:
        found.append(arrays.feed_torch)
    if sys.modules.get("pandas") is not None:
        found.append(tables.feed_pandas)
    return [*found, containers.feed_container, code.feed_code]
