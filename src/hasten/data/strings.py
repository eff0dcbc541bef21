"""Texts by the million as two arrays: no object for each, and memory-mapped like any array."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

SURROGATES = "surrogatepass"
"""Any str of Python's goes in and comes out again, also one that is no text."""


class Strings(Sequence[str]):
    """A sequence of str that cannot be changed. Text ``i`` is the UTF-8 bytes of ``data`` from
    ``offsets[i]`` to ``offsets[i + 1]``; it is decoded when it is asked for."""

    def __init__(self, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        self.offsets = offsets
        self.data = data

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Strings":
        """Made of any texts, which are copied."""
        encoded = [text.encode("utf-8", SURROGATES) for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(each) for each in encoded], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    @classmethod
    def joined(cls, pieces: Sequence["Strings"]) -> "Strings":
        """One after the other."""
        own = [each.data[each.offsets[0] : each.offsets[-1]] for each in pieces]
        starts = np.cumsum([0, *(len(data) for data in own)])
        offsets = [
            each.offsets[1:] - each.offsets[0] + start
            for each, start in zip(pieces, starts[:-1], strict=True)
        ]
        return cls(np.concatenate([[0], *offsets]).astype(np.int64), np.concatenate(own))

    def tolist(self) -> list[str]:
        """All of them decoded."""
        return list(self)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> "Strings": ...
    def __getitem__(self, at: int | slice) -> "str | Strings":
        if not isinstance(at, slice):
            place = range(len(self))[at]
            piece = self.data[self.offsets[place] : self.offsets[place + 1]]
            return piece.tobytes().decode("utf-8", SURROGATES)
        start, stop, step = at.indices(len(self))
        if step != 1:
            return Strings.of(self[place] for place in range(start, stop, step))
        return Strings(self.offsets[start : max(start, stop) + 1], self.data)

    def __iter__(self) -> Iterator[str]:
        ends = self.offsets.tolist()
        whole = self.data[ends[0] : ends[-1]].tobytes()
        first = ends[0]
        for start, stop in pairwise(ends):
            yield whole[start - first : stop - first].decode("utf-8", SURROGATES)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == its for mine, its in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self[:3]))
        return f"Strings([{first}{', ...' if len(self) > 3 else ''}], {len(self)} texts)"
