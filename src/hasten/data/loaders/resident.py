"""Data that stays on the device, in the order and with the randomness of a DataLoader."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.freezing.frozen import Frozen
from hasten.data.loaders.batched import cannot_batch
from hasten.data.loaders.chunks import Chunks
from hasten.data.loaders.columns import Columns, nbytes
from hasten.data.loaders.order import (
    Order,
    WholeEpoch,
    cannot_take_whole,
)
from hasten.data.loaders.resumable import Resumable
from hasten.errors import HastenError
from hasten.task import batch as batches
from hasten.task.batch import RowsOf

CHUNK_BYTES, ALIGNMENT = 2**25, 256
"""Of batches that are gathered together on the device."""
LARGEST_SHARE = 0.4
"""Of the device's free memory: the step needs the rest."""


class _Together:
    """The batches of a chunk, gathered when the first of them is looked at, by few large kernels.

    Only for the stream on which that happens: on any other they might not be there yet. And not in
    a capture, which gathers when it is replayed.
    """

    def __init__(self, chunks: Chunks, rows: Tensor) -> None:
        self._chunks, self._rows = chunks, rows
        self._gathered: list[tuple[Tensor, ...]] | None = None
        self._stream: int | None = None

    def gather(self, place: int) -> list[Tensor] | None:
        here = None
        if self._rows.is_cuda:
            if torch.cuda.is_current_stream_capturing():
                return None
            here = torch.cuda.current_stream(self._rows.device).cuda_stream
        if self._gathered is None:
            chunk = self._chunks.gather(self._rows)
            self._gathered, self._stream = [*self._chunks.cut(chunk, len(self._rows))], here
        return [*self._gathered[place]] if here == self._stream else None


class ResidentLoader(Resumable):
    """Yields what ``loader`` would, bit for bit, as rows of tensors that are on the device.

    The loader's own sampler is asked for a whole epoch of indices, which are uploaded at once.
    A batch is gathered when it is looked at, and its neighbours with it: keeping one keeps these.
    The tensors must not be written to while in use.
    """

    def __init__(
        self, loader: DataLoader[Any], device: torch.device, frozen: Frozen | None = None
    ) -> None:
        reason = cannot_reside(loader, frozen)
        if reason:
            raise HastenError(
                f"This loader's data cannot stay on the device: {reason}.", fix="Keep it as it is."
            )
        super().__init__(loader, Order(loader))
        self._columns = Columns(loader, frozen)
        self._tensors = tuple(tensor.to(device) for tensor in self._columns.tensors)
        self._device = device

    def _batches(self, given: int) -> Iterator[Any]:
        if self._columns.are_stale():
            read = self._columns.read
            return (batches.move(read(each), self._device) for each in self.order.behind(given))
        epoch = self.order.whole()
        # Before the first batch is asked for only where the DataLoader would have drawn them too.
        rows = self._upload(epoch.rows) if given or self.order.ahead else None
        return self._columns.watched(self._in_rows(epoch, rows, given))

    def _in_rows(self, epoch: WholeEpoch, rows: Tensor | None, given: int) -> Iterator[Any]:
        if self._columns.lack(epoch.rows):
            yield from self._one_by_one(epoch, given)
            return
        rows = self._upload(epoch.rows) if rows is None else rows
        chunks = Chunks(self._tensors, epoch.size, alignment=ALIGNMENT, most_bytes=CHUNK_BYTES)
        for span in epoch.spans(chunks.at_once, given):
            epoch.ask(span.start)
            part = rows[span.start * epoch.size : span.stop * epoch.size]
            together = _Together(chunks, part)
            for place, each in enumerate(torch.split(part, epoch.size)):
                batch = RowsOf(self._tensors, each, partial(together.gather, place))
                yield batch if self._columns.form is None else self._columns.build(batch.gather())
        epoch.ask(epoch.batches)

    def _one_by_one(self, epoch: WholeEpoch, given: int) -> Iterator[Any]:
        """Where some are counted from the end, or are not there; an error comes in its turn."""
        for span in epoch.spans(1, given):
            epoch.ask(span.start)
            yield batches.move(self._columns.fetch(epoch.rows_of(span).tolist()), self._device)
        epoch.ask(epoch.batches)

    def _upload(self, rows: Tensor) -> Tensor:
        if self._device.type == "cpu":
            return rows
        return rows.pin_memory().to(self._device, non_blocking=True)


def resident_bytes(loader: DataLoader[Any], frozen: Frozen | None = None) -> int:
    if frozen is not None:
        return nbytes(frozen.columns)
    assert isinstance(loader.dataset, TensorDataset)  # held by cannot_reside
    return nbytes(loader.dataset.tensors)


def too_large_for(
    device: torch.device,
    loader: DataLoader[Any],
    frozen: Frozen | None = None,
    *,
    share: float = LARGEST_SHARE,
) -> str | None:
    """Why the data takes more than this share of the device's free memory; None where it fits."""
    size = resident_bytes(loader, frozen)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    if size <= share * free:
        return None
    return (
        f"its {size / 2**20:,.0f} MiB are more than {share:.0%} of the {free / 2**20:,.0f} MiB that"
        " are free on the device"
    )


def cannot_reside(loader: object, frozen: Frozen | None = None) -> str | None:
    """Why ``loader`` cannot be replaced by a ResidentLoader; None where it can."""
    reason = cannot_batch(loader, frozen)
    if reason:
        return reason
    if frozen is not None and frozen.absent is not None:
        return "some of its items could not be read"
    assert isinstance(loader, DataLoader)  # held by cannot_batch
    return cannot_take_whole(loader)
