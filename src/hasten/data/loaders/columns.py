"""A dataset as columns: for each leaf of an item one tensor with a row for each item.

A batch of it is gathered by index, and is what ``default_collate`` would have made of the items, to
the bit.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from hasten.data.freezing.frozen import Frozen
from hasten.errors import HastenError

ODD_TENSORS = "its tensors are not plain CPU tensors without gradients"


class Columns:
    """The rows of a TensorDataset, or of any dataset that is ``frozen``."""

    def __init__(self, loader: DataLoader[Any], frozen: Frozen | None = None) -> None:
        if frozen is not None and frozen.dataset is not loader.dataset:
            raise HastenError(
                "These columns were frozen from another dataset than this loader's.",
                fix="Freeze the loader that you give.",
            )
        self.loader, self._frozen = loader, frozen
        self.tensors: tuple[Tensor, ...]
        if frozen is None:
            assert isinstance(loader.dataset, TensorDataset)  # held by cannot_batch
            self.tensors, self.form = loader.dataset.tensors, None
        else:
            self.tensors, self.form = frozen.columns, frozen.form
        self._absent = frozen.absent if frozen is not None else None
        self.rows = len(self.tensors[0])

    def build(self, leaves: list[Tensor]) -> Any:
        """The batch of which these are the tensors."""
        return leaves if self.form is None else pytree.tree_unflatten(leaves, self.form)

    def lack(self, rows: Tensor) -> bool:
        """Whether one of these cannot be gathered, but has to be asked of the dataset."""
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < self.rows):
            return True
        return self._absent is not None and bool(self._absent[rows].any())

    def fetch(self, indices: Any) -> Any:
        """The batch of any indices that the dataset takes, and its errors for all others."""
        numbers = list(indices)
        if numbers and all(type(each) is int and 0 <= each < self.rows for each in numbers):
            rows = torch.tensor(numbers)
            return self.read(indices) if self.lack(rows) else self.gather(rows)
        if numbers and self._frozen is None:
            return self.gather(_from_the_end(numbers, self.rows))
        return self.read(indices)

    def gather(self, rows: Tensor) -> Any:
        """The batch of rows that it does not lack."""
        return self.build([tensor.index_select(0, rows) for tensor in self.tensors])

    def read(self, indices: Any) -> Any:
        """The batch as the DataLoader makes it, item by item, here and now."""
        loader = self.loader
        fetcher = _MapDatasetFetcher(loader.dataset, True, loader.collate_fn, drop_last=False)
        return fetcher.fetch(indices)  # type: ignore[no-untyped-call]

    def are_stale(self) -> bool:
        """Whether the dataset is another one by now than it was when it was frozen."""
        return self._frozen is not None and self._frozen.is_stale()

    def watched(self, epoch: Iterator[Any]) -> Iterator[Any]:
        """The same; at its end some items are read again, and must be what they were."""
        return epoch if self._frozen is None else self._frozen.watched(epoch)


def _from_the_end(indices: list[Any], rows: int) -> Tensor:
    """As a TensorDataset may be indexed: by negative numbers, and those of other types than int."""
    return torch.tensor([index + rows if index < 0 else index for index in indices])


def nbytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def cannot_gather(tensors: Sequence[Tensor]) -> str | None:
    """Why batches of these may not be made by ``index_select``; None where they may.

    Views are gathered into contiguous memory, as their rows are stacked.
    """
    return ODD_TENSORS if any(map(_is_odd, tensors)) else None


def _is_odd(tensor: Tensor) -> bool:
    return (
        type(tensor) is not Tensor
        or tensor.device.type != "cpu"
        or tensor.layout != torch.strided
        or tensor.requires_grad
    )
