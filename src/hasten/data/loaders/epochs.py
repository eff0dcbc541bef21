"""An epoch from any place in it, as if it had been gone through from its beginning.

A loader draws its order from the random generators when an epoch begins. So where these stood then
is noted, and they are put back there to begin the same epoch again, in this process or another.
What was consumed before is not loaded where the order alone says what comes next; else every batch
is loaded again and thrown away, so that whatever the workers draw is drawn again too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    Sampler,
    TensorDataset,
    default_collate,
    default_convert,
)
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from hasten.data.loaders.order import cannot_draw_at_once
from hasten.task.digest import digest
from hasten.task.seed import random_state, restore_random_state, same_host_random_state
from hasten.task.traits import draws_random

INDICES, ITEMS = 10_000, 3
"""Of a loader, that are read to see whether they come again."""


@dataclass(frozen=True)
class EpochStart:
    """Where the random generators stood when an epoch began."""

    random: dict[str, Any]
    own: list[Tensor]
    """Of generators that the loader has of its own."""
    later: bool
    """Whether it is not the first of this training: workers that live on began with that."""

    @classmethod
    def now(cls, loader: Any, *, later: bool) -> "EpochStart":
        return cls(random_state(), own_states(loader), later)


def own_generators(loader: Any) -> list[torch.Generator]:
    batches = getattr(loader, "batch_sampler", None)
    holders = [loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)]
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(each): each for each in found if isinstance(each, torch.Generator)}.values())


def own_states(loader: Any) -> list[Tensor]:
    return [each.get_state() for each in own_generators(loader)]


def start_workers(loader: Any) -> None:
    """Those that live on from epoch to epoch, as an epoch before had: they draw a seed."""
    if _lives_on(loader):
        next(iter(loader), None)


def restore_own(loader: Any, states: list[Tensor]) -> None:
    for generator, state in zip(own_generators(loader), states, strict=True):
        generator.set_state(state)


def restore_start(loader: Any, start: EpochStart) -> None:
    _restore(own_generators(loader), start)


def begin_at(loader: Any, start: EpochStart, given: int, *, replay: bool = False) -> Iterator[Any]:
    """The epoch that began so, behind its first ``given`` batches.

    The random generators are left somewhere: whoever goes on from here knows where they stood.
    """
    if given and not replay and cannot_skip(loader) is None:
        return _skip(loader, start, given)
    if start.later:
        start_workers(loader)
    restore_start(loader, start)
    source: Iterator[Any] = iter(loader)
    for _ in islice(source, given):
        pass
    return source


def cannot_skip(loader: object) -> str | None:
    """Why batches must be loaded to get behind them; None where their indices do."""
    if type(loader) is not DataLoader or isinstance(loader.dataset, IterableDataset):
        return "only iterating tells what it gives"
    if type(loader.batch_sampler) is not BatchSampler:
        return "it does not make batches by a plain BatchSampler"
    reason = cannot_draw_at_once(loader.batch_sampler.sampler)
    if reason is None and loader.num_workers and type(loader.dataset) is not TensorDataset:
        return "its items may draw random numbers in workers"  # some of them; one cannot tell
    return reason


def cannot_repeat(loader: Any, start: EpochStart) -> str | None:
    """Why an epoch cannot be begun again in another process so that its items are the same.

    To be asked of a loader that has not begun yet. Its indices and its first items are read twice
    with the random generators at the same place: what differs has a memory of its own.
    """
    state, own = random_state(), own_states(loader)
    try:
        return _has_memory(loader, state, own) or _draws_in_old_workers(loader, start)
    finally:
        restore_random_state(state)
        restore_own(loader, own)


def _has_memory(loader: Any, state: dict[str, Any], own: list[Tensor]) -> str | None:
    def twice(read: Callable[[], Any]) -> bool:
        found = []
        for _ in range(2):
            restore_random_state(state)
            restore_own(loader, own)
            found.append(digest(read()))
        return found[0] != found[1]

    sampler, dataset = getattr(loader, "batch_sampler", None), getattr(loader, "dataset", None)
    if sampler is not None and twice(lambda: list(islice(sampler, INDICES))):
        plain = type(sampler) is BatchSampler  # then the memory is that of what it reads
        kind = type(sampler.sampler if plain else sampler).__name__
        return f"its sampler, a {kind}, has a memory of its own"
    if isinstance(dataset, IterableDataset):
        # Workers have copies, made anew for each epoch of one that nobody has read from.
        if not getattr(loader, "num_workers", 0) and twice(lambda: list(islice(dataset, ITEMS))):
            return "its dataset has a memory of its own"
    elif dataset is not None and draws_random(dataset) is not None and twice(lambda: dataset[0]):
        return "its items draw from a random generator of the dataset's own"
    elif _collates_here(loader) and twice(lambda: make_batch(loader, next(_indices(loader)))):
        return "its collate_fn has a memory of its own"
    return None


def _collates_here(loader: Any) -> bool:
    """By a function of the user's own, in this process; workers have copies of it."""
    collate = getattr(loader, "collate_fn", None)
    return not getattr(loader, "num_workers", 0) and collate not in (
        None,
        default_collate,
        default_convert,
    )


def draws_to_make_batches(loader: Any) -> bool:
    """Whether random numbers are drawn from the indices of the first batch to the batch.

    Of a loader with a dataset of items; shows that it draws, never that it does not.
    """
    return _draws(loader, lambda first, others: make_batch(loader, first))


def draws_between_batches(loader: Any) -> bool:
    """Whether its sampler draws random numbers behind the first indices that it gives."""
    return _draws(loader, lambda first, others: list(islice(others, INDICES)))


def _draws(loader: Any, read: Callable[[Any, Iterator[Any]], Any]) -> bool:
    """Whether the common random generators are moved by ``read`` of the first indices that the
    sampler gives, and of the others."""
    state, own = random_state(), own_states(loader)
    try:
        indices = _indices(loader)
        first = next(indices)
        before = random_state()
        read(first, indices)
        return not same_host_random_state(before)
    finally:
        restore_random_state(state)
        restore_own(loader, own)


def _indices(loader: Any) -> Iterator[Any]:
    return iter(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)


def make_batch(loader: Any, indices: Any) -> Any:
    """As torch does, without pinning."""
    collates = loader.batch_sampler is not None
    fetcher = _MapDatasetFetcher(loader.dataset, collates, loader.collate_fn, drop_last=False)
    return fetcher.fetch(indices)  # type: ignore[no-untyped-call]


def _draws_in_old_workers(loader: Any, start: EpochStart) -> str | None:
    dataset = getattr(loader, "dataset", None)
    if not (start.later and _lives_on(loader)) or isinstance(dataset, IterableDataset):
        return None
    if draws_random(dataset) is False and not draws_to_make_batches(loader):
        return None
    return "its items draw random numbers in workers that have lived since the first epoch"


def _skip(loader: DataLoader[Any], start: EpochStart, given: int) -> Iterator[Any]:
    """The DataLoader draws what it always draws; only its indices come from further on."""
    generators, behind = own_generators(loader), _Behind(loader.batch_sampler)
    # It refuses another sampler, and so it has one only while it makes its iterator.
    vars(loader)["batch_sampler"] = behind
    try:
        if start.later and _lives_on(loader):
            iter(loader)  # starts the workers, as the epoch before had
        _restore(generators, start)
        behind.skip = given
        source = iter(loader)
    finally:
        vars(loader)["batch_sampler"] = behind.sampler
    behind.made.begin()  # now, as long as the generators stand where they stood
    return source


class _Behind(Sampler[list[int]]):
    """A batch sampler whose next epoch leaves out its first batches."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.skip = 0
        self.made: _Indices

    def __iter__(self) -> Iterator[list[int]]:
        self.made = _Indices(self)
        return self.made

    def __len__(self) -> int:
        return len(self.sampler)


class _Indices:
    """Begins with the first index that is asked for, and draws then, as samplers do."""

    def __init__(self, behind: _Behind) -> None:
        self._behind = behind
        self._indices: Iterator[list[int]] | None = None

    def begin(self) -> Iterator[list[int]]:
        if self._indices is None:
            source = iter(self._behind.sampler)
            skip, self._behind.skip = self._behind.skip, 0
            for _ in islice(source, skip):
                pass
            self._indices = source
        return self._indices

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        return next(self.begin())


def _restore(own: list[torch.Generator], start: EpochStart) -> None:
    restore_random_state(start.random)
    for generator, state in zip(own, start.own, strict=True):
        generator.set_state(state)


def _lives_on(loader: Any) -> bool:
    return bool(getattr(loader, "persistent_workers", False))
