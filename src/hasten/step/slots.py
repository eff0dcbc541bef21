"""Static inputs of a captured step: batches are copied into them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.task.batch import RowsOf, detach

Signature = tuple[Any, ...]
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
"""What a batch may hold beside tensors: values that are told from others by comparing them."""


def cannot_hold(batch: Any) -> str | None:
    """Why no captured step takes such a batch."""
    leaves = [batch.rows] if type(batch) is RowsOf else pytree.tree_leaves(batch)
    for leaf in leaves:
        kind = type(leaf)
        if kind is Tensor and leaf.requires_grad:
            return "batches hold tensors that require gradients, which a graph cannot take"
        if kind is Tensor and leaf.layout is not torch.strided:
            return "batches hold sparse tensors, which a graph cannot take"
        if kind is not Tensor and kind not in PLAIN:
            name = f"{kind.__module__}.{kind.__qualname__}"
            return f"batches hold objects of {name}, which a graph cannot take"
    return None


def signature_of(batch: Any) -> Signature:
    """What two batches must share to go through the same captured step."""
    if type(batch) is RowsOf:
        return RowsOf, id(batch.tensors), _form(batch.rows)
    leaves, spec = pytree.tree_flatten(batch)
    return spec, *[_form(leaf) for leaf in leaves]


def _form(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, Tensor):
        return type(leaf), leaf.shape, leaf.dtype, leaf.requires_grad
    return type(leaf), leaf if type(leaf) in PLAIN else id(leaf)


class Slots:
    """A batch of its own whose tensors stay where they are."""

    def __init__(self, batch: Any, device: torch.device) -> None:
        self.batch: Any
        if type(batch) is RowsOf:
            self.batch = RowsOf(batch.tensors, batch.rows.clone())
        else:
            self.batch = pytree.tree_map_only(
                Tensor, lambda tensor: tensor.detach().to(device, copy=True), batch
            )
        self._signature = signature_of(batch)
        self._kind = type(batch)
        self._plain = self._kind in (list, tuple) and all(type(each) is Tensor for each in batch)
        self._slots = _tensors(self.batch)
        self._forms = [(tensor.shape, tensor.dtype) for tensor in self._slots]
        assert cannot_hold(batch) is None  # such are not captured

    def for_capture(self) -> Any:
        """The batch that is computed; what a step asks of its tensors does not reach the slots."""
        return self.batch if self._kind is RowsOf else detach(self.batch)

    def fit(self, batch: Any) -> bool:
        """Whether ``take`` would."""
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
        for tensor, (shape, dtype) in zip(tensors, self._forms, strict=True):
            if type(tensor) is not Tensor or tensor.shape != shape or tensor.dtype is not dtype:
                return False
            if tensor.requires_grad:
                return False
        if self._slots:
            torch._foreach_copy_(self._slots, tensors, True)  # one kernel, if all are on the device
        return True


def _tensors(batch: Any) -> list[Tensor]:
    if type(batch) is RowsOf:
        return [batch.rows]
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)]
