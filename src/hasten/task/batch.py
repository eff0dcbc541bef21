"""Batches are pytrees of tensors; these are the things done to one."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.errors import HastenError

Batch = Any


class RowsOf(Sequence[Tensor]):
    """The named rows of some tensors, a batch that is gathered only when it is looked at.

    To whoever looks it is the list of gathered tensors, and so it is to pytrees. A captured step
    takes the row numbers and gathers for itself. Who made it may know a faster way to gather,
    ``otherwise``, which is None where it cannot be used just now.
    """

    __slots__ = ("_otherwise", "rows", "tensors")

    def __init__(
        self,
        tensors: tuple[Tensor, ...],
        rows: Tensor,
        otherwise: Callable[[], list[Tensor] | None] | None = None,
    ) -> None:
        self.tensors = tensors
        self.rows = rows
        self._otherwise = otherwise

    def gather(self) -> list[Tensor]:
        found = self._otherwise() if self._otherwise is not None else None
        if found is not None:
            return found
        return [tensor.index_select(0, self.rows) for tensor in self.tensors]

    def __len__(self) -> int:
        return len(self.tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.gather())

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        if isinstance(index, slice) or self._otherwise is not None:
            return self.gather()[index]
        return self.tensors[index].index_select(0, self.rows)


pytree.register_pytree_node(RowsOf, lambda rows: (rows.gather(), None), lambda leaves, _: [*leaves])


def tensors_of(batch: Batch) -> list[Tensor]:
    if type(batch) in (list, tuple) and all(type(each) is Tensor for each in batch):
        return list(batch)  # the usual ones, which need no walk
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)]


def move(batch: Batch, device: torch.device) -> Batch:
    """To the device, in containers of the same kind; a batch of resident rows is gathered."""
    kind = type(batch)
    if kind is RowsOf:
        batch, kind = batch.gather(), list
    if kind is list or kind is tuple:  # the usual ones, which need no walk
        away = False
        for each in batch:
            if type(each) is not Tensor:
                break
            away |= each.device != device
        else:
            return kind([each.to(device) for each in batch]) if away else batch
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), batch)


def detach(state: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.detach(), state)


def clone(state: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.clone(), state)


def rows_in(batch: Batch) -> int:
    """The size of the first dimension, which every tensor that has one must share."""
    if isinstance(batch, RowsOf):
        return len(batch.rows)
    tensors = [tensor for tensor in tensors_of(batch) if tensor.dim()]
    sizes = {tensor.size(0) for tensor in tensors}
    if len(sizes) != 1:
        found = f"first dimensions {sorted(sizes)}" if sizes else "no tensor with a dimension"
        raise HastenError(
            f"The rows of a batch cannot be counted: it has {found}.",
            fix="Let every tensor of a batch hold its rows along the first dimension.",
        )
    return sizes.pop()


def holds_other_rows(batch: Batch, rows: int) -> bool:
    """Whether there may be a value beside the tensors for each row, such as a list of weights."""
    others = [leaf for leaf in pytree.tree_leaves(batch) if not isinstance(leaf, Tensor)]
    return len(others) >= rows > 1


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


def even_pieces(rows: int, pieces: int, multiple_of: int) -> list[int]:
    """Sizes as equal as they can be, the larger first, all multiples; fewer where rows are few."""
    units, odd = divmod(rows, multiple_of)
    if odd:
        return [rows]
    each, larger = divmod(units, min(pieces, units) or 1)
    count = min(pieces, units) or 1
    return [(each + (place < larger)) * multiple_of for place in range(count)]
