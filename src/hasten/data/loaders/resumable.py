"""A loader whose place in an epoch can be kept, and gone on from in another process.

The place is where the random generators stood when the epoch began, and how many batches have been
consumed. To go on, the generators are put back there, the same epoch is begun, its first batches
are left out without being loaded, and the generators are put where they stood when it was kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from hasten.data.loaders.epochs import (
    EpochStart,
    cannot_repeat,
    draws_between_batches,
    own_states,
    restore_own,
)
from hasten.data.loaders.order import Order, cannot_take_whole
from hasten.data.loaders.stand_in import StandIn
from hasten.errors import HastenError
from hasten.task.seed import random_state, restore_random_state

VERSION = 1


class Resumable(StandIn, ABC):
    """Stands for ``loader``, in its order. A loader of this kind says how an epoch is gone through
    behind its first batches; this counts what is consumed."""

    loader: DataLoader[Any]

    def __init__(self, loader: DataLoader[Any], order: Order) -> None:
        self.loader, self.order = loader, order
        self._place: Place | None = None
        """In the last epoch that was begun."""
        self._loaded: dict[str, Any] | None = None

    @abstractmethod
    def _batches(self, given: int) -> Iterator[Any]:
        """Of an epoch that begins now, without the first so many.

        What a DataLoader draws as it begins, and for these, is drawn when this returns; the rest as
        it goes.
        """

    def __iter__(self) -> Iterator[Any]:
        loaded, self._loaded = self._loaded, None
        if loaded is not None and loaded["epoch"] is not None:
            return self._go_on(loaded)
        if loaded is not None:
            self._restore(loaded["now"], loaded["own"], loaded["later"])
        start = EpochStart.now(self.loader, later=self.order.seeded)
        self._place = Place(start)
        return self._place.count(self._batches(0))

    def _go_on(self, state: dict[str, Any]) -> Iterator[Any]:
        began = state["epoch"]
        start = EpochStart(began["random"], began["own"], began["later"])
        self._restore(start.random, start.own, start.later)
        self._place = Place(start, state["given"])
        source = self._batches(state["given"])
        self._restore(state["now"], state["own"], state["later"])
        return self._place.count(source)

    def _restore(self, random: dict[str, Any], own: list[Any], later: bool) -> None:
        restore_random_state(random)
        restore_own(self.loader, own)
        self.order.seeded = later

    def state_dict(self) -> dict[str, Any]:
        """What was handed out of which epoch, and where the random generators stand now: numbers,
        lists, tuples and tensors, which ``torch.load`` takes from a file as it is."""
        if self._loaded is not None:
            return self._loaded
        place = self._place if self._place is not None and not self._place.ended else None
        start = place.start if place is not None else None
        return {
            "version": VERSION,
            "form": self._form(),
            "epoch": start
            and {"random": _plain(start.random), "own": start.own, "later": start.later},
            "given": place.given if place is not None else 0,
            "later": self.order.seeded,
            "now": _plain(random_state()),
            "own": own_states(self.loader),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next epoch that is begun goes on behind what had been consumed, and puts all random
        generators where they stood; until then nothing happens."""
        if state.get("version") != VERSION:
            raise _refused(f"its version is {state.get('version')}, and this is {VERSION}")
        for name, here in self._form().items():
            there = state["form"].get(name)
            if there != here:
                raise _refused(f"its {name} is {there}, and here it is {here}")
        reason = self._cannot_go_on(state)
        if reason:
            raise _refused(f"{reason}, so that its epoch cannot be begun again")
        self._loaded = state

    def _cannot_go_on(self, state: dict[str, Any]) -> str | None:
        if not state["given"] or cannot_take_whole(self.loader) is None:
            return None
        if draws_between_batches(self.loader):
            return "the sampler draws random numbers between those of the training"
        began = state["epoch"]
        return cannot_repeat(self.loader, EpochStart(began["random"], began["own"], began["later"]))

    def _form(self) -> dict[str, Any]:
        """By which the state of another loader is known."""
        own = own_states(self.loader)
        return {
            "number of rows": len(self.loader.dataset),  # type: ignore[arg-type]
            "batch size": getattr(self.loader.batch_sampler, "batch_size", None),
            "drop_last": getattr(self.loader.batch_sampler, "drop_last", None),
            "number of generators": len(own),
            # A generator of the loader's own is drawn from so many batches early.
            "number of batches that workers are ahead": self.order.ahead if own else None,
        }


class Place:
    """How far an epoch has been gone through."""

    def __init__(self, start: EpochStart, given: int = 0) -> None:
        self.start, self.given, self.ended = start, given, False

    def count(self, source: Iterator[Any]) -> Iterator[Any]:
        return _Counted(self, source)


class _Counted:
    """An iterator, not a generator: after an error, as of a broken row, it goes on behind it."""

    def __init__(self, place: Place, source: Iterator[Any]) -> None:
        self._place, self._source = place, source

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._place.given += 1
        try:
            return next(self._source)
        except StopIteration:
            self._place.given -= 1
            self._place.ended = True
            raise


def _plain(random: dict[str, Any]) -> Any:
    """The same without arrays."""
    return pytree.tree_map_only(np.ndarray, np.ndarray.tolist, random)


def _refused(why: str) -> HastenError:
    return HastenError(
        f"This state is not of this loader: {why}.", fix="Load the state that this loader kept."
    )
