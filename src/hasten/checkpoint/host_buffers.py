"""Host memory that tensors are copied into, kept for the next time.

Fresh memory is slow to write to: the kernel hands out each page at its first touch, and pinning it
takes longer still. So the memory stays, as long as the tensors keep their forms.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

ALIGNMENT_BYTES = 64
SLAB_BYTES = 64 << 20
"""Small tensors share slabs: torch rounds pinned memory up to a power of two, each time."""

Form = tuple[torch.dtype, torch.Size]


class HostBuffers:
    def __init__(self) -> None:
        self._forms: list[Form] = []
        self._is_pinned = False
        self._buffers: list[Tensor] = []

    def copy(self, tensors: list[Tensor]) -> list[Tensor]:
        """On the host, in the order given, and valid until the next call. What is the same view
        of the same memory is copied once. The device is waited for once."""
        with torch.no_grad():
            views = [_view_of(each) for each in tensors]
            once = dict(zip(views, tensors, strict=True))
            self._prepare(list(once.values()))
            hosts = dict(zip(once, self._buffers, strict=True))
            for view, tensor in once.items():
                hosts[view].copy_(tensor, non_blocking=tensor.is_cuda)
            for device in {each.device for each in tensors if each.is_cuda}:
                torch.cuda.synchronize(device)
        return [hosts[view] for view in views]

    def _prepare(self, tensors: list[Tensor]) -> None:
        forms = [(each.dtype, each.shape) for each in tensors]
        is_pinned = any(each.is_cuda for each in tensors)
        if (forms, is_pinned) == (self._forms, self._is_pinned):
            return
        self._buffers = []  # given back before as much is taken anew
        self._buffers = list(_allocate(tensors, is_pinned=is_pinned))
        self._forms, self._is_pinned = forms, is_pinned


def _view_of(tensor: Tensor) -> tuple[object, ...]:
    if tensor.numel() == 0:
        return (id(tensor),)  # it has no memory to tell it by
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), bits


def _allocate(tensors: list[Tensor], *, is_pinned: bool) -> Iterator[Tensor]:
    """A buffer for each, in turn cut from slabs."""
    slab = torch.empty(0, dtype=torch.uint8)
    start = 0
    left = sum(_room_for(each) for each in tensors)
    for tensor in tensors:
        room = _room_for(tensor)
        if start + room > len(slab):
            size = max(room, min(left, SLAB_BYTES))
            slab = torch.empty(size, dtype=torch.uint8, pin_memory=is_pinned)
            start = 0
        yield slab[start : start + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)
        start += room
        left -= room


def _room_for(tensor: Tensor) -> int:
    return -(-tensor.nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
