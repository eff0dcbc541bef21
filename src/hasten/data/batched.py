"""In-memory tensors a batch at a time, in the order and with the randomness of a DataLoader."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, TensorDataset, default_collate

from hasten.data.stand_in import StandIn
from hasten.errors import HastenError


class BatchedLoader(StandIn):
    """Yields what ``loader`` would, bit for bit, by indexing whole batches.

    A DataLoader reads a TensorDataset row by row and stacks the rows again. This asks the same
    batch sampler for the same indices and gathers them at once. It draws from the random
    generators just as the DataLoader does, so that everything after it stays the same too.
    The given loader is not changed; tensors must not be written to while it is in use.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        reason = cannot_batch(loader)
        if reason:
            raise HastenError(f"This loader cannot be batched: {reason}.", fix="Keep it as it is.")
        self.loader = loader
        assert isinstance(loader.dataset, TensorDataset)  # held by cannot_batch
        self._tensors = loader.dataset.tensors
        self._pin = loader.pin_memory and torch.accelerator.is_available()
        self._seeded = loader._iterator is not None  # persistent workers that have begun

    def __iter__(self) -> Iterator[list[Tensor]]:
        """Ask the sampler and draw random numbers at the moments when the DataLoader would."""
        loader = self.loader
        assert isinstance(loader.batch_sampler, BatchSampler)  # held by cannot_batch
        indices: Iterator[Iterable[int]]
        if not (loader.persistent_workers and self._seeded):
            indices = iter(loader.batch_sampler)
            # The seed of the workers, drawn even where there are none.
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
            self._seeded = True
        if loader.num_workers:
            indices = iter(loader.batch_sampler)  # asked for anew once the workers have started
            indices = _ahead(indices, loader.num_workers * (loader.prefetch_factor or 1))
        return self._batches(indices)

    def _batches(self, indices: Iterator[Iterable[int]]) -> Iterator[list[Tensor]]:
        for batch in indices:
            rows = _as_rows(list(batch), len(self._tensors[0]))
            gathered = [tensor.index_select(0, rows) for tensor in self._tensors]
            yield [tensor.pin_memory() for tensor in gathered] if self._pin else gathered


def _ahead(indices: Iterator[Iterable[int]], count: int) -> Iterator[Iterable[int]]:
    """The same, each taken ``count`` early: so much is in the hands of workers at any time."""
    taken = deque(islice(indices, count))

    def one_by_one() -> Iterator[Iterable[int]]:
        while taken:
            batch = taken.popleft()
            taken.extend(islice(indices, 1))
            yield batch

    return one_by_one()


def _as_rows(indices: list[int], rows: int) -> Tensor:
    if min(indices) < 0:  # counted from the end, as a dataset may be indexed
        indices = [index + rows if index < 0 else index for index in indices]
    return torch.tensor(indices)


def cannot_batch(loader: object) -> str | None:
    """Why ``loader`` cannot be replaced by a BatchedLoader; None where it can."""
    if type(loader) is not DataLoader:
        # A subclass may yield anything; StatefulDataLoader shuffles in its own way.
        return f"it is a {type(loader).__name__}, not a plain DataLoader"
    if type(loader.dataset) is not TensorDataset:
        return f"its dataset is a {type(loader.dataset).__name__}, not a plain TensorDataset"
    if loader.collate_fn is not default_collate:
        return "it has a collate function of its own"
    if not isinstance(loader.batch_sampler, BatchSampler):
        return "it does not make batches by a BatchSampler"
    if any(_is_odd(tensor) for tensor in loader.dataset.tensors):
        return "its tensors are not plain contiguous CPU tensors without gradients"
    return None


def _is_odd(tensor: Tensor) -> bool:
    return (
        type(tensor) is not Tensor
        or tensor.device.type != "cpu"
        or tensor.layout != torch.strided
        or tensor.requires_grad
        or not tensor.is_contiguous()
    )
