"""In-memory data a batch at a time, in the order and with the randomness of a DataLoader."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from hasten.data.columns import Columns, cannot_gather
from hasten.data.frozen import Frozen
from hasten.data.order import Order, WholeEpoch, cannot_take_whole
from hasten.data.resumable import Resumable
from hasten.errors import HastenError

CHUNK_BYTES = 2**20
"""Gathered at once: more would not stay in the caches until it is used."""
CHUNK_BATCHES = 64


class BatchedLoader(Resumable):
    """Yields what ``loader`` would, bit for bit, by indexing whole batches.

    A DataLoader reads its dataset row by row and stacks the rows again. This asks the same batch
    sampler for the same indices and gathers them at once, small batches several at a time. It draws
    from the random generators just as the DataLoader does, so that everything after it stays the
    same too. The given loader is not changed; its tensors must not be written to while it is used.
    """

    def __init__(self, loader: DataLoader[Any], frozen: Frozen | None = None) -> None:
        reason = cannot_batch(loader, frozen)
        if reason:
            raise HastenError(f"This loader cannot be batched: {reason}.", fix="Keep it as it is.")
        super().__init__(loader, Order(loader))
        self.columns = Columns(loader, frozen)
        self.takes_whole = cannot_take_whole(loader) is None
        self._pin = loader.pin_memory and torch.accelerator.is_available()

    def _batches(self, given: int) -> Iterator[Any]:
        if self.columns.are_stale():
            read = self.columns.read
            return (self._pinned(read(batch)) for batch in self.order.behind(given))
        return self.columns.watched(self._gathered(given))

    def _gathered(self, given: int) -> Iterator[Any]:
        if not self.takes_whole:
            return self._one_by_one(self.order.behind(given))
        epoch = self.order.whole()
        if given:
            epoch.draw()
        return self._in_chunks(epoch, given)

    def _one_by_one(self, indices: Iterator[Any]) -> Iterator[Any]:
        for batch in indices:
            yield self._pinned(self.columns.fetch(batch))

    def _in_chunks(self, epoch: WholeEpoch, given: int) -> Iterator[Any]:
        columns = self.columns
        for span in epoch.spans(self._batches_at_once(epoch.size), given):
            epoch.ask(span.start)
            rows = epoch.rows_of(span)
            chunk = columns.chunk(rows)
            if chunk is None:
                yield from self._one_by_one(each.tolist() for each in torch.split(rows, epoch.size))
                continue
            if self._pin:
                chunk = [tensor.pin_memory() for tensor in chunk]
            yield from columns.cut(chunk, epoch.size)
        epoch.ask(epoch.batches)

    def _batches_at_once(self, size: int) -> int:
        most = CHUNK_BYTES // max(size * self.columns.row_bytes, 1)
        return max(min(most, CHUNK_BATCHES), 1)

    def _pinned(self, batch: Any) -> Any:
        return pytree.tree_map_only(Tensor, Tensor.pin_memory, batch) if self._pin else batch


def cannot_batch(loader: object, frozen: Frozen | None = None) -> str | None:
    """Why ``loader`` cannot be replaced by a BatchedLoader; None where it can."""
    reason = cannot_stand_for(loader)
    if reason or frozen is not None:
        return reason
    assert isinstance(loader, DataLoader)  # held by cannot_stand_for
    if type(loader.dataset) is not TensorDataset:
        return f"its dataset is a {type(loader.dataset).__name__}, not a plain TensorDataset"
    return cannot_gather(loader.dataset.tensors)


def cannot_stand_for(loader: object) -> str | None:
    """Why the batches of ``loader`` cannot be made from columns, whatever its dataset is."""
    if type(loader) is not DataLoader:
        # A subclass may yield anything; StatefulDataLoader shuffles in its own way.
        return f"it is a {type(loader).__name__}, not a plain DataLoader"
    if isinstance(loader.dataset, IterableDataset):
        return f"its dataset is a {type(loader.dataset).__name__}, a stream without indices"
    if loader.batch_sampler is None:
        return "it gives single items (batch_size=None), not batches"
    if loader.collate_fn is not default_collate:
        return "it has a collate function of its own"
    return None
