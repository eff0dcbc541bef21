"""The next batch on its way to the device while the current one is computed."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.data.loaders.stand_in import StandIn


class OverlappedLoader(StandIn):
    """Yields the batches of ``loader``, on the device, each copied while the one before is used.

    Tensors that are not pinned go through pinned memory. The copies run on a stream of their own;
    the consumer's stream waits for them, the host does not. One batch is taken ahead, never across
    the end of an epoch.
    """

    def __init__(self, loader: Iterable[Any], device: torch.device) -> None:
        self.loader = loader
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[Any]:
        source = iter(self.loader)
        on_its_way = self._send_next(source)
        while on_its_way is not None:
            batch, sent = on_its_way
            on_its_way = self._send_next(source)
            here = torch.cuda.current_stream(self._device)
            here.wait_event(sent)
            for tensor in pytree.tree_leaves(batch):
                if isinstance(tensor, Tensor):
                    tensor.record_stream(here)  # its memory is the side stream's
            yield batch

    def _send_next(self, source: Iterator[Any]) -> tuple[Any, torch.cuda.Event] | None:
        try:
            batch = next(source)
        except StopIteration:
            return None
        with torch.cuda.stream(self._stream):
            moved = pytree.tree_map_only(Tensor, self._send, batch)
            return moved, self._stream.record_event()

    def _send(self, tensor: Tensor) -> Tensor:
        if tensor.device == self._device:
            return tensor
        pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
        return pinned.to(self._device, non_blocking=True)
