"""Batches are pytrees of tensors; these are the things done to one."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.errors import HastenError

Batch = Any


def tensors_of(batch: Batch) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)]


def move(batch: Batch, device: torch.device) -> Batch:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), batch)


def detach(state: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.detach(), state)


def clone(state: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.clone(), state)


def rows_in(batch: Batch) -> int:
    """The size of the first dimension, which every tensor that has one must share."""
    tensors = [tensor for tensor in tensors_of(batch) if tensor.dim()]
    sizes = {tensor.size(0) for tensor in tensors}
    if len(sizes) != 1:
        found = f"first dimensions {sorted(sizes)}" if sizes else "no tensor with a dimension"
        raise HastenError(
            f"The rows of a batch cannot be counted: it has {found}.",
            fix="Let every tensor of a batch hold its rows along the first dimension.",
        )
    return sizes.pop()


def split(batch: Batch, sizes: list[int]) -> list[Batch]:
    """Pieces of the batch along its rows, of the given sizes."""
    rows = rows_in(batch)
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]

    def piece(start: int, end: int) -> Batch:
        def cut(tensor: Tensor) -> Tensor:
            return tensor[start:end] if tensor.dim() and tensor.size(0) == rows else tensor

        return pytree.tree_map_only(Tensor, cut, batch)

    return [piece(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def ragged_halves(rows: int, multiple_of: int) -> list[int] | None:
    """Two unequal sizes that add up to ``rows``, both multiples; None where there are none."""
    units, odd = divmod(rows, multiple_of)
    if odd or units < 3:
        return None
    first = max(units * 5 // 8, units // 2 + 1) * multiple_of
    return [first, rows - first]
