"""In-memory data a batch at a time, in the order and with the randomness of a DataLoader."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.freezing.frozen import Frozen, cannot_stand_for
from hasten.data.loaders.chunks import Chunks
from hasten.data.loaders.columns import Columns, cannot_gather
from hasten.data.loaders.order import Order, WholeEpoch, cannot_take_whole
from hasten.data.loaders.resumable import Resumable
from hasten.errors import HastenError

CHUNK_BYTES = 2**16
"""Gathered at once: what is larger takes longer to copy than to ask for, and its memory may have to
be asked of the system each time."""
WORTH_IT = 8
"""Batches at once, from which on that is faster than one by one."""
ALIGNMENT = 64
"""Of memory that torch takes for a tensor."""


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
        # Of items that raise, each batch by itself: an epoch goes on behind it.
        complete = frozen is None or frozen.absent is None
        self.takes_whole = complete and cannot_take_whole(loader) is None
        self._pin = loader.pin_memory and torch.accelerator.is_available()

    def _batches(self, given: int) -> Iterator[Any]:
        return self.epoch(given)

    def epoch(self, given: int) -> Iterator[Any]:
        """As ``iter``, without the first batches, and without counting what is consumed."""
        if self.columns.are_stale():
            return map(self._read, self.order.behind(given))
        return self.columns.watched(self._gathered(given))

    def _gathered(self, given: int) -> Iterator[Any]:
        if not self.takes_whole:
            return map(self._fetch, self.order.behind(given))
        epoch = self.order.whole()
        if given:
            epoch.draw()
        return self._from_whole(epoch, given)

    def _read(self, indices: Any) -> Any:
        return self._pinned(self.columns.read(indices))

    def _fetch(self, indices: Any) -> Any:
        return self._pinned(self.columns.fetch(indices))

    def _from_whole(self, epoch: WholeEpoch, given: int) -> Iterator[Any]:
        columns = self.columns
        chunks = Chunks(columns.tensors, epoch.size, alignment=ALIGNMENT, most_bytes=CHUNK_BYTES)
        lacking = columns.lack(epoch.rows)
        together = chunks.at_once >= WORTH_IT and not lacking
        for span in epoch.spans(chunks.at_once if together else epoch.batches, given):
            epoch.ask(span.start)
            rows = epoch.rows_of(span)
            if together:
                cut = map(list, chunks.cut(chunks.gather(rows, pinned=self._pin), len(rows)))
                yield from cut if columns.form is None else map(columns.build, cut)
            elif lacking:
                yield from map(self._fetch, map(Tensor.tolist, torch.split(rows, epoch.size)))
            else:
                yield from map(self._pinned, map(columns.gather, torch.split(rows, epoch.size)))
        epoch.ask(epoch.batches)

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
