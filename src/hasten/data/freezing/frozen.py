"""A dataset whose items were read and kept as columns, and the watch over whether they still hold.

When an epoch begins everything that the dataset holds is compared with what it was. At its end some
items are read again, in a forked copy of this process, so that the dataset itself is not touched.
"""

import dataclasses
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, IterableDataset, default_collate

from hasten.data.freezing.bodies import Outside
from hasten.data.freezing.owned import state_of
from hasten.errors import HastenError
from hasten.host.forked import ForkFailed, forked

CHECKED = 8
"""Items that are read again at the end of an epoch."""
EVERY_S = 1.0
"""Between two such checks: short epochs are not all checked."""
LIMIT_S = 60.0


@dataclasses.dataclass
class Frozen:
    dataset: Any
    """What was read; it is not changed."""
    columns: tuple[Tensor, ...]
    """For each leaf of an item a tensor with a row for each item."""
    form: pytree.TreeSpec | None
    """Of a batch; None for a list of tensors."""
    absent: Tensor | None
    """Which items could not be read, as bools; None where all could."""
    outside: Sequence[Outside] = ()
    """Variables by which items are made, beside what the dataset holds."""
    every_s: float = EVERY_S

    def __post_init__(self) -> None:
        self._state = self._state_now()
        self._stale = False
        self._choice = random.Random(len(self.columns[0]))  # no one else's generator is drawn from
        self._checked_at = -float("inf")

    def _state_now(self) -> str:
        return state_of(self.dataset, *(each.value for each in self.outside), whole=False)

    def is_stale(self) -> bool:
        """Whether the dataset has changed since. Then it is read as it is, from now on."""
        if not self._stale and self._state_now() != self._state:
            self._stale = True
            warnings.warn(
                f"The dataset, a {type(self.dataset).__name__}, has changed since its items were"
                " kept: they are read again from here on, one by one.",
                stacklevel=2,
            )
        return self._stale

    def watched(self, epoch: Iterator[Any]) -> Iterator[Any]:
        """The same; at its end some items are read again, and must be what they were."""
        return _Watched(self, epoch)

    def check(self) -> None:
        """Now and then: compare some items with what was kept."""
        if time.monotonic() - self._checked_at < self.every_s:
            return
        rows = len(self.columns[0])
        chosen = self._choice.sample(range(rows), min(CHECKED, rows))
        try:
            found = list(forked(lambda send: send(self._first_other(chosen)), LIMIT_S))
        except (ForkFailed, OSError) as failure:
            self._stale = True
            warnings.warn(
                f"Kept items could not be compared with those of the {type(self.dataset).__name__}:"
                f" {failure}. They are read from here on, one by one.",
                stacklevel=2,
            )
            return
        if found != [None]:
            raise HastenError(
                f"Item {found[0]} of the dataset, a {type(self.dataset).__name__}, is another one"
                " than when it was kept: the batches since then were made of old items.",
                fix="Keep this loader as it is: its items are not the same each time.",
            )
        self._checked_at = time.monotonic()

    def _first_other(self, chosen: list[int]) -> int | None:
        torch.set_num_threads(1)  # threads do not survive a fork
        present = [row for row in chosen if self.absent is None or not self.absent[row]]
        return next((row for row in present if not self._is_same(row)), None)

    def _is_same(self, row: int) -> bool:
        leaves = pytree.tree_leaves(default_collate([self.dataset[row]]))
        return same_row(leaves, self.columns, row)


class _Watched:
    """An iterator, not a generator: after an error, as of a broken row, it goes on behind it."""

    def __init__(self, frozen: Frozen, epoch: Iterator[Any]) -> None:
        self._frozen, self._epoch = frozen, epoch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for batch in self._epoch:
            return batch
        self._frozen.check()
        raise StopIteration


def same_row(leaves: list[Tensor], columns: Sequence[Tensor], row: int) -> bool:
    """Whether a batch of one item is what is kept, to the bit."""
    return len(leaves) == len(columns) and all(
        _same_bits(leaf[0], column[row]) for leaf, column in zip(leaves, columns, strict=True)
    )


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """NaN is the same as the same NaN, and 0 is not -0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(_as_bytes(one), _as_bytes(other))


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def cannot_stand_for(loader: object) -> str | None:
    """Why the batches of ``loader`` cannot be made from columns, whatever its dataset is."""
    if type(loader) is not DataLoader:
        # A subclass may yield anything; StatefulDataLoader shuffles in its own way.
        return f"it is a {type(loader).__name__}, not a plain DataLoader"
    if isinstance(loader.dataset, IterableDataset):
        return f"its dataset is a {type(loader.dataset).__name__}, a stream without indices"
    if loader.batch_sampler is None:
        return "it gives single items (batch_size=None), not batches"
    if loader.collate_fn is not default_collate:
        return "it has a collate function of its own"
    return None
