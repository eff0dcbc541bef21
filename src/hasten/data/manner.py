"""How a dataset behaves when it is read: the same each time, at random, or with a memory.

Read in a copy of this process, so that a dataset which counts, caches or draws is left as it was.
Shows that items draw or differ; never that none of them does: an item that was not read may still
be random. So those who load ahead go on watching.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from hasten.data.copies import CopyFailed, in_a_copy
from hasten.data.foresight import CANNOT_COPY, Foresight
from hasten.data.order import Order
from hasten.data.reach import device_tensors, fingerprint, open_handles
from hasten.errors import in_a_line
from hasten.task.digest import digest
from hasten.task.seed import host_random_state, restore_host_random_state, same_host_random_state
from hasten.task.traits import ORDINARY_ERRORS

BATCHES = 2
"""The first ones, that are read in the loader's own order."""
SPREAD = 256
"""Items that are read from all over the dataset."""
READING_S = 4.0
"""All of that ends then, between two items."""
LIMIT_S = 20.0
"""For the copy, where a single item takes longer."""


@dataclass(frozen=True)
class Manner:
    """Each None, or the reason in words."""

    random: str | None = None
    """Reading draws random numbers."""
    stateful: str | None = None
    """Reading again gives something else."""
    writes: str | None = None
    """Reading changes the dataset, though not what it gives: no two threads may."""
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
    try:
        return in_a_copy(lambda: _read_twice(loader), LIMIT_S)
    except CopyFailed as failure:
        return Manner(unknown=f"its items could not be read in a copy of this process: {failure}")


def manner_at_sight(loader: DataLoader[Any]) -> Manner | None:
    """What can be told without reading an item; None where nothing stands against it."""
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return Manner(
            stateful="its dataset is iterable, and each worker would go through all of it"
        )
    handles, on_device = open_handles(dataset)[:3], device_tensors(dataset)[:3]
    if on_device:
        return Manner(on_device=f"its dataset holds tensors on a device: {', '.join(on_device)}")
    if handles:
        # Not even a copy may read it: the place in the file would move here too.
        return Manner(
            handles=f"its dataset holds open files, {', '.join(handles)}, which forked processes "
            "would share and read wrongly"
        )
    return None


def _read_twice(loader: DataLoader[Any]) -> Manner:
    try:
        batches = list(islice(Foresight(Order(loader)), BATCHES))
    except CANNOT_COPY as error:
        return Manner(unknown=f"its sampler cannot be copied: {in_a_line(str(error))}")
    before = fingerprint(loader.dataset)
    readings = [_item(loader, index) for index in chain(_spread(loader), *batches)]
    readings += [_batch(loader, indices) for indices in batches]
    end = time.monotonic() + READING_S
    first: list[str] = []
    for read in readings:
        value, moved = _watched(read)
        if moved:
            return Manner(random="its items draw random numbers")
        first.append(digest(value))
        if time.monotonic() > end:
            break
    # All of them once more, not each at once: a memory may be a long one.
    for read, found in zip(readings, first, strict=False):
        if digest(_watched(read)[0]) != found:
            return Manner(stateful="its items are not the same when they are read again")
        if time.monotonic() > end + READING_S:
            break
    if before is None or before != fingerprint(loader.dataset):
        return Manner(writes="reading its items changes the dataset itself")
    return Manner()


def _spread(loader: DataLoader[Any]) -> Iterator[int]:
    """Only where the dataset has been seen to be asked for numbers: by the sampler's kind."""
    dataset: Any = loader.dataset
    if not hasattr(dataset, "__len__") or not len(dataset):
        return iter(())
    first = next(iter(Foresight(Order(loader))), None)
    if first is None or not all(isinstance(index, int) for index in first):
        return iter(())
    return iter(range(0, len(dataset), max(1, len(dataset) // SPREAD)))


def _item(loader: DataLoader[Any], index: Any) -> Callable[[], Any]:
    return lambda: loader.dataset[index]


def _batch(loader: DataLoader[Any], indices: Any) -> Callable[[], Any]:
    return lambda: make_batch(loader, indices)


def make_batch(loader: DataLoader[Any], indices: Any) -> Any:
    """As torch does, without pinning."""
    dataset: Any = loader.dataset
    if hasattr(dataset, "__getitems__") and dataset.__getitems__:
        return loader.collate_fn(dataset.__getitems__(indices))
    return loader.collate_fn([dataset[index] for index in indices])


def _watched(read: Callable[[], Any]) -> tuple[Any, bool]:
    state = host_random_state()
    try:
        value = read()
    except ORDINARY_ERRORS as error:  # a row that no sampler asks for, or one that is broken
        value = repr(error)
    moved = not same_host_random_state(state)
    restore_host_random_state(state)
    return value, moved
