"""Datasets that are shown to give the same item each time, kept as columns.

Shown in three ways, and any doubt is a refusal. The code that makes the items is read for random
numbers, clocks and counters. All items are read, twice, the second time in another order and with
other seeds, in a forked copy of this process; they must be the same to the bit, and neither the
random generators nor anything that the dataset holds may have moved. And some are read again while
the columns are used (``frozen.py``). An item that raises, both times, is left out; whoever asks for
it asks the dataset.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import IOBase
from typing import Any

from torch.utils.data import DataLoader

from hasten.data.freezing import known
from hasten.data.freezing.bodies import Outside
from hasten.data.freezing.doubt import Doubt
from hasten.data.freezing.frozen import Frozen, cannot_stand_for
from hasten.data.freezing.owned import everything_in
from hasten.data.freezing.passes import Refused, read_twice
from hasten.data.freezing.reading import read_code
from hasten.data.freezing.room import Layout, Room
from hasten.host.forked import ForkFailed, can_fork, forked

LIMIT_S = 600.0


class CannotFreeze(Exception):  # noqa: N818
    """Why a dataset may not, or cannot, be kept as columns."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def freeze(
    loader: DataLoader[Any],
    *,
    most_bytes: int,
    limit_s: float = LIMIT_S,
    tell: Callable[[int, int], None] | None = None,
) -> Frozen:
    """The items of ``loader`` as columns, in memory that is at most ``most_bytes``.

    Takes as long as reading the dataset twice, and is given up after ``limit_s``. ``tell`` is
    called with how many items were read, and how many there are to read. The dataset is left as it
    is. Raises ``CannotFreeze``.
    """
    reason = cannot_stand_for(loader) or _cannot_be_read(loader)
    if reason:
        raise CannotFreeze(reason)
    try:
        outside = read_code(loader.dataset)
        with closing(Room(most_bytes)) as room, _files_left_as_they_are(loader.dataset):
            layout = _read_in_a_copy(loader.dataset, outside, room, limit_s, tell)
            columns, absent = room.columns(layout)
    except (Doubt, Refused, ForkFailed) as refusal:
        raise CannotFreeze(str(refusal)) from None
    some_absent = absent if bool(absent.any()) else None
    return Frozen(loader.dataset, columns, layout.form, some_absent, outside)


def _cannot_be_read(loader: DataLoader[Any]) -> str | None:
    dataset = loader.dataset
    try:
        rows = len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return f"its dataset, a {type(dataset).__name__}, has no length"
    if not rows:
        return "its dataset is empty"
    if any(known.is_read(type(each).__module__) for each in _read_many_at_a_time(dataset)):
        return "it makes many items at a time (__getitems__), which may depend on each other"
    if loader.worker_init_fn is not None and loader.num_workers:
        return "its workers are prepared by a function (worker_init_fn) that may change the dataset"
    return None if can_fork() else "this process cannot be forked"


def _read_many_at_a_time(dataset: Any) -> Iterator[Any]:
    return (each for each in everything_in(dataset) if hasattr(type(each), "__getitems__"))


def _read_in_a_copy(
    dataset: Any,
    outside: list[Outside],
    room: Room,
    limit_s: float,
    tell: Callable[[int, int], None] | None,
) -> Layout:
    """In a forked process, which leaves the columns in the room."""
    total = 2 * len(dataset)
    for message in forked(lambda send: read_twice(dataset, outside, room, send), limit_s):
        if isinstance(message, Layout):
            return message
        if isinstance(message, str):
            raise Refused(message)
        if tell is not None:
            tell(message, total)
    raise ForkFailed("its process ended without a word")


@contextmanager
def _files_left_as_they_are(dataset: Any) -> Iterator[None]:
    """A forked process shares the places in files that are open."""
    places = {}
    for held in everything_in(dataset):
        if isinstance(held, IOBase) and not held.closed:
            try:
                places[held.fileno()] = os.lseek(held.fileno(), 0, os.SEEK_CUR)
            except OSError:
                continue  # in memory, or a pipe
    try:
        yield
    finally:
        for descriptor, place in places.items():
            os.lseek(descriptor, place, os.SEEK_SET)
