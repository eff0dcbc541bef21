"""A column of text as a list of rows: which are taken, their lengths, and pieces to work on."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hasten.errors import HastenError

PIECE_CHARACTERS = 1 << 18
"""So much text is encoded at once: what is made on the way stays in the processor's caches, and a
table needs little memory beside its tensor."""


class Column(Protocol):
    """A numpy array or a pandas Series."""

    def tolist(self) -> Any: ...


Lengths = npt.NDArray[np.int64]
Texts = Sequence[str] | Sequence[bytes] | Column


def rows_of(texts: Texts, name: str) -> list[str]:
    """The rows as a list; ``name`` is for the errors. Bytes, as HDF5 gives them, must be ASCII, and
    are held once more as text."""
    listed: Any = texts.tolist() if hasattr(texts, "tolist") else texts
    if isinstance(listed, str | bytes):
        raise HastenError(
            f"{name}: one string, {shown(listed)}, where a column of them belongs.",
            fix="Put it into a list.",
        )
    rows: list[Any] = listed if isinstance(listed, list) else list(listed)
    kind = bytes if rows and isinstance(rows[0], bytes) else str
    if not all(issubclass(each, kind) for each in set(map(type, rows))):
        row = next(row for row, value in enumerate(rows) if not isinstance(value, kind))
        raise HastenError(
            f"{name}, row {row}: {shown(rows[row])} is no {kind.__name__}.",
            fix="Fill in or drop what is missing, and keep to one type.",
        )
    return rows if kind is str else _decoded(rows, name)


def _decoded(rows: list[bytes], name: str) -> list[str]:
    if not all(map(bytes.isascii, rows)):
        row = next(row for row, value in enumerate(rows) if not value.isascii())
        raise HastenError(
            f"{name}, row {row}: the bytes {shown(rows[row])} are not ASCII.",
            fix="Decode the column first, such as with numpy.char.decode(column, 'utf-8').",
        )
    return [row.decode("ascii") for row in rows]


def shown(value: object) -> str:
    """As in code, but not longer than an error can bear."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def lengths_of(rows: list[str]) -> Lengths:
    return np.fromiter(map(len, rows), np.int64, len(rows))


def pieces(lengths: Lengths) -> Iterator[slice]:
    """Neighbouring rows of together about ``PIECE_CHARACTERS``; a longer row is by itself."""
    ends = np.cumsum(lengths + 1)  # so that rows without text count too
    start = before = 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, before + PIECE_CHARACTERS, side="right"))
        stop = max(stop, start + 1)
        yield slice(start, stop)
        start, before = stop, int(ends[stop - 1])
