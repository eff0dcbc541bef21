"""Static inputs of a captured step: batches are copied into them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.task.batch import RowsOf

Signature = tuple[Any, ...]


def signature_of(batch: Any) -> Signature:
    """What two batches must share to go through the same captured step."""
    if isinstance(batch, RowsOf):
        return RowsOf, id(batch.tensors), batch.rows.shape
    leaves, spec = pytree.tree_flatten(batch)
    return spec, *[
        (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves
    ]


class Slots:
    """A batch of its own whose tensors stay where they are."""

    def __init__(self, batch: Any, device: torch.device) -> None:
        self.batch: Any
        if isinstance(batch, RowsOf):
            self.batch = RowsOf(batch.tensors, batch.rows.clone())
        else:
            self.batch = pytree.tree_map_only(
                Tensor, lambda tensor: tensor.detach().to(device, copy=True), batch
            )
        self._signature = signature_of(batch)
        self._kind = type(batch)
        self._plain = self._kind in (list, tuple) and all(type(each) is Tensor for each in batch)
        self._slots = [(tensor, tensor.shape, tensor.dtype) for tensor in _tensors(self.batch)]

    def fit(self, batch: Any) -> bool:
        return signature_of(batch) == self._signature

    def take(self, batch: Any) -> bool:
        """Copy the batch in; False where it does not fit, and then nothing is to be replayed."""
        if self._kind is RowsOf:
            if type(batch) is not RowsOf or batch.tensors is not self.batch.tensors:
                return False
            tensors = [batch.rows]
        elif self._plain and type(batch) is self._kind:
            tensors = batch
        elif self.fit(batch):
            tensors = _tensors(batch)
        else:
            return False
        if len(tensors) != len(self._slots):
            return False
        for tensor, (slot, shape, dtype) in zip(tensors, self._slots, strict=True):
            if type(tensor) is not Tensor or tensor.shape != shape or tensor.dtype is not dtype:
                return False
            slot.copy_(tensor, non_blocking=True)
        return True


def _tensors(batch: Any) -> list[Tensor]:
    if type(batch) is RowsOf:
        return [batch.rows]
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)]
