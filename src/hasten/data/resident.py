"""Tensors that stay on the device, in the order and with the randomness of a DataLoader."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from hasten.data.batched import cannot_batch
from hasten.data.stand_in import StandIn
from hasten.task.batch import RowsOf

DRAWING_AT_THE_START = (
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
"""Samplers that draw from the shared random generators before their first index and never after,
so that asking for the whole epoch at once moves nothing."""


class ResidentLoader(StandIn):
    """Yields what ``loader`` would, bit for bit, as rows of tensors that are on the device.

    The loader's own sampler is asked for a whole epoch of indices, which are uploaded at once.
    A batch is gathered when it is looked at. The tensors must not be written to while in use.
    """

    def __init__(self, loader: DataLoader[Any], device: torch.device) -> None:
        self.loader = loader
        assert isinstance(loader.dataset, TensorDataset)  # held by cannot_reside
        assert isinstance(loader.batch_sampler, BatchSampler)
        # Where the user made it, the loader's own batch_size, drop_last and sampler say nothing.
        self._sampler = loader.batch_sampler
        self._tensors = tuple(tensor.to(device) for tensor in loader.dataset.tensors)
        self._device = device
        self._seeded = loader._iterator is not None  # persistent workers that have begun

    def __iter__(self) -> Iterator[RowsOf]:
        loader = self.loader
        if not (loader.persistent_workers and self._seeded):
            # The seed of the workers, drawn even where there are none.
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
            self._seeded = True
        if loader.num_workers:  # they are sent the first indices when they start
            return self._batches(self._draw())
        return self._draw_late()

    def _draw_late(self) -> Iterator[RowsOf]:
        yield from self._batches(self._draw())

    def _draw(self) -> Tensor:
        """The indices of one epoch, on the device."""
        indices = _epoch_of(self._sampler)
        if self._device.type == "cpu":
            return indices
        return indices.pin_memory().to(self._device, non_blocking=True)

    def _batches(self, indices: Tensor) -> Iterator[RowsOf]:
        loader, sampler = self.loader, self._sampler
        size = sampler.batch_size
        starts = range(0, len(indices), size)
        # The request for indices that finds the sampler at its end is a partial batch's, or one
        # more; workers make it so many batches ahead.
        last = len(starts) + (sampler.drop_last or len(indices) % size == 0)
        ahead = loader.num_workers * (loader.prefetch_factor or 0)
        end_at = max(last - ahead, 1)
        for number, start in enumerate(starts, 1):
            if number == end_at:
                _draw_last(sampler.sampler)
            yield RowsOf(self._tensors, indices[start : start + size])
        if end_at > len(starts):
            _draw_last(sampler.sampler)


def _epoch_of(batches: BatchSampler) -> Tensor:
    sampler = batches.sampler
    if type(sampler) is RandomSampler and not sampler.replacement:
        indices = _permutation(sampler)
    else:
        indices = torch.tensor(list(sampler), dtype=torch.int64)
    whole = len(indices) // batches.batch_size * batches.batch_size
    return indices[:whole] if batches.drop_last else indices


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


def resident_bytes(loader: DataLoader[Any]) -> int:
    tensors = loader.dataset.tensors  # type: ignore[attr-defined]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def cannot_reside(loader: object) -> str | None:
    """Why ``loader`` cannot be replaced by a ResidentLoader; None where it can."""
    reason = cannot_batch(loader)
    if reason:
        return reason
    assert isinstance(loader, DataLoader)  # held by cannot_batch
    assert isinstance(loader.batch_sampler, BatchSampler)
    if type(loader.batch_sampler) is not BatchSampler:
        return f"it has a batch sampler of its own, {type(loader.batch_sampler).__name__}"
    return cannot_draw_at_once(loader.batch_sampler.sampler)


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
