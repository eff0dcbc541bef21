"""Why an item is not trusted to be the same each time."""

from collections.abc import Iterator
from contextlib import contextmanager


class Doubt(Exception):  # noqa: N818
    """What speaks against trusting an item to be the same each time, with its place."""


class Unread(Doubt):
    """Code that is known only as it runs: it may do anything."""


class MayDraw(Doubt):
    """It may draw random numbers, or set what others draw."""


class Doubts:
    """All that come up: the first one must not hide a worse one behind it."""

    def __init__(self) -> None:
        self._found: list[Doubt] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """What raises a doubt inside is not gone on with."""
        try:
            yield
        except Doubt as doubt:
            self._found.append(doubt)

    def take(self, other: "Doubts") -> None:
        self._found += other._found

    def raise_the_worst(self) -> None:
        for kind in (MayDraw, Unread, Doubt):
            for doubt in self._found:
                if isinstance(doubt, kind):
                    raise doubt
