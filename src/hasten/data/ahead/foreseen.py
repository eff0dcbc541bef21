"""A loader whose batches are made ahead, by whomever, for indices that were foreseen."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory

from hasten.data.ahead.foresight import Foresight, same_indices
from hasten.data.ahead.watched import Drew
from hasten.data.loaders.epochs import make_batch
from hasten.data.loaders.order import Order
from hasten.data.loaders.resumable import Resumable

OTHER_STREAM = "same distribution, other stream"
"""What is said of random numbers that workers draw from their own generators."""


class Source(Protocol):
    """One epoch of batches that are made ahead."""

    def next(self) -> tuple[Any, Any]:
        """A batch behind the indices that it was made for; where there is none, None for both."""

    def end(self) -> None:
        """Stop whoever makes them; twice is fine."""


class ForeseenLoader(Resumable):
    """Yields what ``loader`` would, bit for bit.

    The user's own sampler is asked, and random generators are drawn from, at the moments when the
    user's loader does that; whoever makes batches is told beforehand what it will say (see
    ``foresight``). A batch for which that was wrong, or for which random numbers were drawn though
    its dataset seemed not to draw any, is made here in its turn; ``notes`` say so.
    """

    def __init__(self, loader: DataLoader[Any], *, random: bool = False) -> None:
        super().__init__(loader, Order(loader))
        self.notes: list[str] = []
        """What came otherwise than expected while it ran."""
        self.random = random
        """Whether items may draw random numbers, which are then others than before."""
        self.in_turn = False
        """Whether batches are made here, one by one: as asked, or since it went wrong before."""

    def _batches(self, given: int) -> Iterator[Any]:
        return _Epoch(self, given)

    @abstractmethod
    def start(self, foresight: Foresight) -> Source:
        """Begin to make what is foreseen."""

    def close(self) -> None:
        """End whatever lives on from epoch to epoch."""

    def give_up(self, why: str) -> None:
        self.in_turn = True
        self.close()
        self.notes.append(f"{why}; from there on batches are made one by one in this process")

    def make(self, indices: Any) -> Any:
        """A batch, here and now."""
        batch = make_batch(self.loader, indices)
        if not (self.loader.pin_memory and torch.accelerator.is_available()):
            return batch
        return pin_memory(batch)  # type: ignore[no-untyped-call]


class _Epoch:
    """An iterator, not a generator: after an error, as of a broken row, it goes on behind it."""

    def __init__(self, owner: ForeseenLoader, given: int) -> None:
        """Draws what the user's loader draws when it begins, and for the first ``given`` batches,
        which are left out."""
        self._owner = owner
        self._source: Source | None = None
        self._foresight = None if owner.in_turn else Foresight(owner.order, given)
        self._indices = owner.order.behind(given)
        self._draws_late = not owner.loader.num_workers and not given
        """Whether the sampler is first asked for the first batch, not when workers start."""
        if owner.loader.num_workers and self._foresight is not None:
            self._source = owner.start(self._foresight)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._source is None and self._foresight is not None:
            if self._draws_late:
                self._foresight.catch_up()
            self._source = self._owner.start(self._foresight)
        try:
            wanted = next(self._indices)
        except StopIteration:
            self.close()
            raise
        if self._source is None:
            return self._owner.make(wanted)
        return self._take(wanted, self._source)

    def close(self) -> None:
        source, self._source, self._foresight = self._source, None, None
        if source is not None:
            source.end()

    def __del__(self) -> None:
        if "_source" in vars(self):
            self.close()

    def _take(self, wanted: Any, source: Source) -> Any:
        owner = self._owner
        foreseen, batch = source.next()
        if not same_indices(foreseen, wanted):
            return self._make_from_now_on(
                wanted, "its sampler said something else than was foreseen"
            )
        if not isinstance(batch, Drew):
            return batch
        if owner.random:
            return batch.batch
        if owner.loader.num_workers:
            owner.random = True
            owner.notes.append(f"its items draw random numbers in workers: {OTHER_STREAM}")
            return batch.batch
        why = "its items draw random numbers, which must not be those of workers"
        return self._make_from_now_on(wanted, why)

    def _make_from_now_on(self, wanted: Any, why: str) -> Any:
        self.close()
        self._owner.give_up(why)
        return self._owner.make(wanted)
