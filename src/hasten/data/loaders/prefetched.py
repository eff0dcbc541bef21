"""In-memory data on its way to the device before it is asked for.

A thread gathers many batches at once into pinned memory and copies them on a stream of its own, two
chunks ahead. The consumer's stream waits for a copy, the host does not, and a batch is a piece of
what was copied. The sampler is asked by the thread that iterates, at the moments when a DataLoader
would ask it, so nothing is drawn early.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.chunks import Chunks
from hasten.data.loaders.order import WholeEpoch
from hasten.data.loaders.resumable import Resumable

CHUNK_BYTES = 2**25
"""Copied at once, if there are so many batches; three such chunks are on the device, and those of
which a batch is kept."""
AHEAD = 2
ALIGNMENT = 256


class Chunk(NamedTuple):
    tensors: list[Tensor]
    sent: torch.cuda.Event | None
    """Behind which they are on the device."""


class PrefetchedLoader(Resumable):
    """Yields what ``batched`` does, bit for bit, on ``device``.

    Only where the indices of an epoch can be drawn at once is anything done ahead; else a batch is
    gathered and copied when it is asked for. On a CPU the thread only gathers.
    """

    def __init__(self, batched: BatchedLoader, device: torch.device) -> None:
        super().__init__(batched.loader, batched.order)
        self._batched, self._device = batched, device
        self._columns = batched.columns
        self._stream = (
            torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            if device.type == "cuda"
            else None
        )

    def _batches(self, given: int) -> Iterator[Any]:
        if not self._batched.takes_whole or self._columns.are_stale():
            return map(self._send, self._batched.epoch(given))
        epoch = self.order.whole()
        if given:
            epoch.draw()
        return self._columns.watched(self._ahead(epoch, given))

    def _send(self, batch: Any) -> Any:
        return pytree.tree_map_only(Tensor, self._send_tensor, batch)

    def _send_tensor(self, tensor: Tensor) -> Tensor:
        if self._stream is None:
            return tensor.to(self._device)
        pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
        return pinned.to(self._device, non_blocking=True)

    def _ahead(self, epoch: WholeEpoch, given: int) -> Iterator[Any]:
        chunks = Chunks(
            self._columns.tensors, epoch.size, alignment=ALIGNMENT, most_bytes=CHUNK_BYTES
        )
        # The first ones are small, so that the first batch is not waited for.
        spans = epoch.spans(chunks.at_once, given, first=1)
        waiting: deque[tuple[range, Future[Chunk | None]]] = deque()
        with ExitStack() as stack:
            thread = ThreadPoolExecutor(1, thread_name_prefix="hasten-prefetch")
            stack.callback(thread.shutdown, cancel_futures=True)

            def submit(count: int) -> None:
                for span in islice(spans, count):
                    rows = epoch.rows_of(span)
                    waiting.append((span, thread.submit(self._prepare, chunks, rows)))

            submit(AHEAD)
            while waiting:
                span, future = waiting.popleft()
                submit(1)
                epoch.ask(span.start)
                yield from self._hand_out(future.result(), chunks, epoch, span)
        epoch.ask(epoch.batches)

    def _prepare(self, chunks: Chunks, rows: Tensor) -> Chunk | None:
        """In the thread; None where rows have to be asked of the dataset."""
        if self._columns.lack(rows):
            return None
        if self._stream is None:
            return Chunk([tensor.to(self._device) for tensor in chunks.gather(rows)], None)
        with torch.cuda.stream(self._stream):  # which is the thread's device, too
            gathered = chunks.gather(rows, pinned=True)
            sent = [tensor.to(self._device, non_blocking=True) for tensor in gathered]
            return Chunk(sent, self._stream.record_event())

    def _hand_out(
        self, chunk: Chunk | None, chunks: Chunks, epoch: WholeEpoch, span: range
    ) -> Iterator[Any]:
        rows = epoch.rows_of(span)
        if chunk is None:
            for batch in torch.split(rows, epoch.size):
                yield self._send(self._columns.fetch(batch.tolist()))
            return
        if chunk.sent is not None:
            here = torch.cuda.current_stream(self._device)
            here.wait_event(chunk.sent)
            for tensor in chunk.tensors:
                tensor.record_stream(here)  # its memory is the side stream's
        yield from map(self._columns.build, map(list, chunks.cut(chunk.tensors, len(rows))))
