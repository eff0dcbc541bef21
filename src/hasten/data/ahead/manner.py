"""How a dataset behaves when it is read: the same each time, at random, or with a memory.

Its code is read, and some items, twice, in a copy of this process, so that a dataset which counts,
caches or draws is left as it was. Cheaper than showing that all items are the same (``freezing``),
and less sure: an item that was not read may still be random. So those who load ahead go on
watching.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import IOBase
from itertools import chain, islice
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from hasten.data.ahead.foresight import CANNOT_COPY, Foresight
from hasten.data.freezing.bodies import Outside
from hasten.data.freezing.doubt import Doubt, MayDraw, Unread
from hasten.data.freezing.owned import everything_in, state_of
from hasten.data.freezing.passes import ITEM_ERRORS
from hasten.data.freezing.reading import read_code
from hasten.data.loaders.epochs import make_batch
from hasten.data.loaders.order import Order
from hasten.errors import in_a_line
from hasten.host.forked import ForkFailed, can_fork, forked
from hasten.task.digest import digest
from hasten.task.seed import host_random_state, restore_host_random_state, same_host_random_state

BATCHES = 2
"""The first ones, that are read in the loader's own order."""
SPREAD = 256
"""Items that are read from all over the dataset."""
READING_S = 4.0
"""Each of the two readings ends then, between two items."""
LIMIT_S = 20.0
"""For the copy, where a single item takes longer."""
ITERABLE = "its dataset is iterable, and each worker would go through all of it"
T = TypeVar("T")


@dataclass(frozen=True)
class Manner:
    """Each None, or the reason in words."""

    random: str | None = None
    """Reading draws random numbers, or may."""
    stateful: str | None = None
    """Reading again gives something else."""
    unsure: str | None = None
    """It gives the same, but that two threads may read it at once is not shown."""
    unknown: str | None = None
    """It could not be read in a copy."""
    handles: str | None = None
    """It holds open files, whose place all processes that fork would share."""
    on_device: str | None = None
    """It holds tensors of a device, which processes that fork cannot use."""


def manner_of(loader: DataLoader[Any]) -> Manner:
    found = manner_at_sight(loader)
    if found is not None:
        return found
    doubt, outside = _read_code(loader)
    if isinstance(doubt, MayDraw | Unread):
        return Manner(random=f"its items may draw random numbers ({doubt})")
    if not can_fork():
        return Manner(unknown="its items cannot be read in a copy: this process cannot fork")
    try:
        found = in_a_copy(lambda: _read_twice(loader, outside), LIMIT_S)
    except ForkFailed as failure:
        return Manner(unknown=f"its items could not be read in a copy of this process: {failure}")
    return Manner(unsure=str(doubt)) if doubt and found == Manner() else found


def manner_at_sight(loader: DataLoader[Any]) -> Manner | None:
    """What can be told without reading code or items; None where nothing stands against it."""
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return Manner(stateful=ITERABLE)
    held = list(everything_in(dataset))
    devices = {str(each.device) for each in held if isinstance(each, torch.Tensor)} - {"cpu"}
    if devices:
        where = ", ".join(sorted(devices))
        return Manner(on_device=f"its dataset holds tensors on {where}, which workers cannot use")
    handles = sorted({_kind(each) for each in held if _is_open(each)})
    if handles:
        # Not even a copy may read it: the place in the file would move here too.
        return Manner(
            handles=f"its dataset holds open files ({', '.join(handles)}), which forked processes "
            "would share and read wrongly"
        )
    return None


def in_a_copy(work: Callable[[], T], limit_s: float) -> T:
    """What ``work`` returns in a forked copy of this process; raises ForkFailed where it fails."""

    def answer(send: Callable[[Any], None]) -> None:
        torch.set_num_threads(1)  # threads do not survive a fork
        try:
            send((work(), None))
        except ITEM_ERRORS as error:
            send((None, f"{type(error).__name__}: {in_a_line(str(error))}"))

    for value, error in forked(answer, limit_s):
        if error is not None:
            raise ForkFailed(error)
        return value  # type: ignore[no-any-return]
    raise ForkFailed("its process ended without a word")


def _kind(thing: object) -> str:
    return f"{type(thing).__module__.partition('.')[0].lstrip('_')}.{type(thing).__name__}"


def _is_open(thing: Any) -> bool:
    if isinstance(thing, IOBase):
        return not thing.closed and _has_descriptor(thing)
    if type(thing).__module__.startswith("h5py._hl"):
        return bool(thing)  # false once its file is closed
    return type(thing).__module__ == "sqlite3" and type(thing).__name__ == "Connection"


def _has_descriptor(thing: IOBase) -> bool:
    try:
        return thing.fileno() >= 0
    except OSError:  # in memory, as io.BytesIO
        return False


def _read_code(loader: DataLoader[Any]) -> tuple[Doubt | None, list[Outside]]:
    """What speaks against trusting it, and the variables outside of the dataset that it reads."""
    try:
        outside = read_code(loader.dataset)
        if loader.collate_fn is not default_collate:
            outside += read_code(loader.collate_fn)
    except Doubt as doubt:
        return doubt, []
    return None, outside


def _read_twice(loader: DataLoader[Any], outside: list[Outside]) -> Manner:
    def state() -> str:
        return state_of(loader.dataset, *(each.value for each in outside), whole=False)

    try:
        batches = list(islice(Foresight(Order(loader)), BATCHES))
    except CANNOT_COPY as error:
        return Manner(unknown=f"its sampler cannot be copied: {in_a_line(str(error))}")
    before = state()
    readings = [_item(loader, index) for index in chain(_spread(loader, batches), *batches)]
    readings += [_batch(loader, indices) for indices in batches]
    first: list[str] = []
    for read in _for_a_while(readings):
        value, moved = _watched(read)
        if moved:
            return Manner(random="its items draw random numbers")
        first.append(digest(value))
    # All of them once more, not each at once: a memory may be a long one.
    for read, found in zip(_for_a_while(readings), first, strict=False):
        if digest(_watched(read)[0]) != found:
            return Manner(stateful="its items are not the same when they are read again")
    if before != state():
        return Manner(unsure="reading its items changes the dataset itself, or what it reads from")
    if any(map(_is_open, everything_in(loader.dataset))):
        return Manner(unsure="reading its items opens files that it keeps")
    return Manner()


def _for_a_while(readings: list[Callable[[], Any]]) -> Iterator[Callable[[], Any]]:
    end = time.monotonic() + READING_S
    for read in readings:
        yield read
        if time.monotonic() > end:
            return


def _spread(loader: DataLoader[Any], batches: list[Any]) -> range:
    """Only of a dataset whose sampler asks for numbers; it may have other keys."""
    dataset: Any = loader.dataset
    if not batches or not all(isinstance(index, int) for index in batches[0]):
        return range(0)
    rows = len(dataset) if hasattr(dataset, "__len__") else 0
    return range(0, rows, max(1, rows // SPREAD))


def _item(loader: DataLoader[Any], index: Any) -> Callable[[], Any]:
    return lambda: loader.dataset[index]


def _batch(loader: DataLoader[Any], indices: Any) -> Callable[[], Any]:
    return lambda: make_batch(loader, indices)


def _watched(read: Callable[[], Any]) -> tuple[Any, bool]:
    state = host_random_state()
    try:
        value = read()
    except ITEM_ERRORS as error:  # a row that no sampler asks for, or one that is broken
        value = repr(error)
    moved = not same_host_random_state(state)
    restore_host_random_state(state)
    return value, moved
