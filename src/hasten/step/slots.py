"""Static inputs of a captured step: batches are copied into them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.task.batch import RowsOf

Signature = tuple[Any, ...]


def signature_of(batch: Any) -> Signature:
    """What two batches must share to go through the same captured step."""
    kind = type(batch)
    if kind is RowsOf:
        return kind, id(batch.tensors), batch.rows.shape
    if kind in (list, tuple) and all(type(each) is Tensor for each in batch):  # the usual ones
        return kind, *[(each.shape, each.dtype) for each in batch]
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
        self._tensors = _tensors(self.batch)

    def fill(self, batch: Any) -> None:
        for slot, tensor in zip(self._tensors, _tensors(batch), strict=True):
            slot.copy_(tensor, non_blocking=True)


def _tensors(batch: Any) -> list[Tensor]:
    if type(batch) is RowsOf:
        return [batch.rows]
    if type(batch) in (list, tuple) and all(type(each) is Tensor for each in batch):
        return list(batch)
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)]
