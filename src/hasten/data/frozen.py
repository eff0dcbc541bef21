"""A dataset whose items were read once and kept as columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils._pytree import TreeSpec


@dataclass(frozen=True)
class Frozen:
    dataset: Any
    """What was read; it is not changed."""
    columns: tuple[Tensor, ...]
    """For each leaf of an item a tensor with a row for each item."""
    form: TreeSpec | None
    """Of a batch; None for a list of tensors."""
    absent: Tensor | None
    """Which items could not be read, as bools; None where all could."""

    def is_stale(self) -> bool:
        return False

    def watched(self, epoch: Iterator[Any]) -> Iterator[Any]:
        return epoch
