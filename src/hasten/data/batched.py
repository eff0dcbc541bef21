"""In-memory tensors a batch at a time, in the order and with the randomness of a DataLoader."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, TensorDataset, default_collate

from hasten.errors import HastenError


class BatchedLoader:
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
        self._epochs = 0

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[list[Tensor]]:
        # A DataLoader draws the seed of its workers when an epoch starts, even without workers;
        # persistent workers are seeded in the first epoch only.
        if not (self.loader.persistent_workers and self._epochs):
            torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator)
        self._epochs += 1
        assert isinstance(self.loader.batch_sampler, BatchSampler)
        return self._batches(iter(self.loader.batch_sampler))

    def _batches(self, indices: Iterator[list[int]]) -> Iterator[list[Tensor]]:
        for batch in indices:
            rows = torch.tensor(batch)
            gathered = [tensor.index_select(0, rows) for tensor in self._tensors]
            yield [tensor.pin_memory() for tensor in gathered] if self._pin else gathered


def cannot_batch(loader: object) -> str | None:
    """Why ``loader`` cannot be replaced by a BatchedLoader; None where it can."""
    if not isinstance(loader, DataLoader):
        return f"it is a {type(loader).__name__}, not a DataLoader"
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
