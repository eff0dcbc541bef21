"""The indices that a DataLoader asks its sampler for, and the random numbers that it draws for it.

In the same order, from the same generators, at the same moments: what a training draws between two
batches comes out as it would have with the DataLoader itself.
"""

from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

DRAWING_AT_THE_START = (
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
"""Samplers that draw from the shared random generators before their first index and never after,
so that asking for the whole epoch at once moves nothing."""


class Order:
    """Iterating begins an epoch and gives the indices of one batch after the other; what the
    DataLoader draws as it begins is drawn by then. ``whole`` begins one that is drawn at once."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.seeded = loader._iterator is not None
        """Whether persistent workers have begun, which draw their seed only once."""

    @property
    def ahead(self) -> int:
        """Batches whose indices workers have before they are asked for."""
        return self.loader.num_workers * (self.loader.prefetch_factor or 0)

    def __iter__(self) -> Iterator[Any]:
        return self.behind(0)

    def behind(self, given: int) -> Iterator[Any]:
        """As ``iter``, without the first ``given`` batches."""
        indices: Iterator[Any] = iter(())
        if self._begins_workers():
            indices = iter(self.loader._index_sampler)
            self._draw_seed()
        if self.loader.num_workers:
            indices = iter(self.loader._index_sampler)  # asked for anew once they have started
        for _ in islice(indices, given):
            pass
        return _ahead(indices, self.ahead) if self.loader.num_workers else indices

    def whole(self) -> "WholeEpoch":
        """Only where ``cannot_take_whole`` has no reason against it."""
        if self._begins_workers():
            self._draw_seed()
        assert isinstance(self.loader.batch_sampler, BatchSampler)  # held by cannot_take_whole
        return WholeEpoch(self.loader.batch_sampler, self.ahead)

    def _begins_workers(self) -> bool:
        return not (self.loader.persistent_workers and self.seeded)

    def _draw_seed(self) -> None:
        """The seed of the workers, drawn even where there are none."""
        torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator)
        self.seeded = True


def _ahead(indices: Iterator[Any], count: int) -> Iterator[Any]:
    """The same, each taken ``count`` early: so much is in the hands of workers at any time."""
    taken = deque(islice(indices, count))

    def one_by_one() -> Iterator[Any]:
        while taken:
            batch = taken.popleft()
            taken.extend(islice(indices, 1))
            yield batch

    return one_by_one()


class WholeEpoch:
    """All indices of an epoch in one tensor.

    Drawn when they are first looked at, which has to be when the first batch is asked for. Workers
    are sent the first ones when they start: then they are drawn at once.
    """

    def __init__(self, sampler: BatchSampler, ahead: int) -> None:
        self._sampler, self._ahead = sampler, ahead
        self.size: int = sampler.batch_size
        if ahead:
            self.draw()
            if self._end_at <= 0:
                _draw_last(sampler.sampler)

    def draw(self) -> Tensor:
        """The indices, now."""
        return self.rows

    @cached_property
    def rows(self) -> Tensor:
        return _rows_of(self._sampler)

    @cached_property
    def batches(self) -> int:
        return -(-len(self.rows) // self.size)

    @cached_property
    def _end_at(self) -> int:
        """The batch, from 1, whose asking finds the sampler at its end; 0 or less: the beginning.

        That is a partial batch, or one more than there are; workers ask so many batches ahead.
        """
        whole = self._sampler.drop_last or len(self.rows) % self.size == 0
        return self.batches + whole - self._ahead

    def spans(self, most: int, given: int = 0, *, first: int | None = None) -> Iterator[range]:
        """Batches, by number, that can be made together: at most so many, behind those given; the
        first time as many as ``first``, then twice as many each time."""
        start, count = given, first or most
        while start < self.batches:
            stop = min(start + count, self.batches)
            if start < self._end_at - 1 < stop:
                stop = self._end_at - 1
            yield range(start, stop)
            start, count = stop, min(2 * count, most)

    def rows_of(self, span: range) -> Tensor:
        return self.rows[span.start * self.size : span.stop * self.size]

    def ask(self, given: int) -> None:
        """Draw what is drawn when one more batch than these is asked for."""
        if given + 1 == self._end_at:
            _draw_last(self._sampler.sampler)


def _rows_of(batches: BatchSampler) -> Tensor:
    sampler = batches.sampler
    if type(sampler) is RandomSampler and not sampler.replacement:
        rows = _permutation(sampler)
    elif type(sampler) is SequentialSampler:
        rows = torch.arange(len(sampler.data_source))
    elif type(sampler) is WeightedRandomSampler:
        rows = torch.multinomial(
            sampler.weights, sampler.num_samples, sampler.replacement, generator=sampler.generator
        )
    else:
        rows = torch.tensor(list(sampler), dtype=torch.int64)
    whole = len(rows) // batches.batch_size * batches.batch_size
    return rows[:whole] if batches.drop_last else rows


def _permutation(sampler: RandomSampler) -> Tensor:
    """As the sampler draws it, without a Python number for each row."""
    rows = len(sampler.data_source)
    generator = sampler.generator
    if generator is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    rounds, rest = divmod(sampler.num_samples, rows)
    drawn = [torch.randperm(rows, generator=generator) for _ in range(rounds)]
    if rest:
        drawn.append(torch.randperm(rows, generator=generator)[:rest])
    return torch.cat(drawn)


def _draw_last(sampler: object) -> None:
    """A RandomSampler draws once more as it ends, of which nothing is used; its generator moves."""
    if type(sampler) is not RandomSampler or sampler.replacement or sampler.generator is None:
        return
    rows = len(sampler.data_source)
    if sampler.num_samples == rows:
        torch.randperm(rows, generator=sampler.generator)


def cannot_take_whole(loader: DataLoader[Any]) -> str | None:
    """Why the indices of an epoch cannot be drawn at once; None where they can."""
    batches = loader.batch_sampler
    if type(batches) is not BatchSampler:
        return f"it has a batch sampler of its own, {type(batches).__name__}"
    return cannot_draw_at_once(batches.sampler)


def cannot_draw_at_once(sampler: object) -> str | None:
    """Why asking for many indices before the first is used may draw other random numbers."""
    if type(sampler) not in DRAWING_AT_THE_START:
        return f"its sampler is a {type(sampler).__name__}, whose draws cannot be taken together"
    if type(sampler) is RandomSampler and _draws_as_it_goes(sampler):
        return "its sampler draws from a generator of its own as it goes"
    return None


def _draws_as_it_goes(sampler: RandomSampler) -> bool:
    """From a generator that others may use; its draws would come early."""
    several = sampler.replacement or sampler.num_samples > len(sampler.data_source)
    return sampler.generator is not None and several
