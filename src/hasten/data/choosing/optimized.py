"""A loader that stands for the user's own, and goes back to its way of loading where it fails."""

from collections.abc import Iterator
from pickle import PicklingError
from typing import Any

from msgspec.structs import replace
from torch.utils.data import DataLoader

from hasten.data.ahead.foreseen import ForeseenLoader
from hasten.data.ahead.manner import Manner
from hasten.data.ahead.workers import WorkerDiedError, WorkersLoader
from hasten.data.choosing.rating import own_settings
from hasten.data.loaders.epochs import own_states, restore_own
from hasten.data.loaders.resumable import Resumable
from hasten.errors import in_a_line
from hasten.records.loading import LoaderRating
from hasten.task.batch import RowsOf
from hasten.task.seed import random_state, restore_random_state
from hasten.task.traits import ORDINARY_ERRORS

FAILURES = (*ORDINARY_ERRORS, WorkerDiedError, MemoryError, PicklingError)
"""Of a way of loading. What else a dataset raises by itself is raised as it is."""


class OptimizedLoader(Resumable):
    """Yields what ``loader`` would, by a faster way that was found safe for it.

    If that fails the epoch goes on at the same batch in the user's own way, with the random
    generators where they would be; what fails there too is the user's own error. ``report`` is
    what was chosen and why, ``why`` the same in sentences.
    """

    def __init__(self, loader: DataLoader[Any], chosen: Resumable, report: LoaderRating) -> None:
        super().__init__(loader, chosen.order)
        self.chosen = chosen
        self.report = report

    @property
    def why(self) -> tuple[str, ...]:
        return (*self.report.lines(), *getattr(self.chosen, "notes", ()))

    def _batches(self, given: int) -> Iterator[Any]:
        return _Guarded(self, given)

    def fall_back(self, failure: BaseException) -> None:
        if isinstance(self.chosen, ForeseenLoader):
            self.chosen.close()
        why = f"{type(failure).__name__}: {in_a_line(str(failure))}"
        self.report = replace(self.report, mode="own", fell_back=why)
        # What is known of the dataset is that its own loader reads it so.
        instead = WorkersLoader(self.loader, own_settings(self.loader), manner=Manner())
        instead.order = self.order
        self.chosen = instead


class _Guarded:
    """One epoch. It begins at once, as that of a DataLoader does."""

    def __init__(self, owner: OptimizedLoader, given: int) -> None:
        self._owner = owner
        self._given = given
        self._start = self._now()
        try:
            self._source = owner.chosen._batches(given)
        except FAILURES as failure:
            self._source = self._begin_again(failure, given)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._source)
        except FAILURES as failure:
            if self._owner.report.mode == "own":
                self._given += 1  # the user's own error; what comes next is behind it
                raise
            batch = self._next_of_another(failure)
        self._given += 1
        # Whoever expects a list asks for its type: rows are gathered now, not when looked at.
        return batch.gather() if type(batch) is RowsOf else batch

    def _next_of_another(self, failure: BaseException) -> Any:
        now = self._now()
        self._source = self._begin_again(failure, self._given)
        if self._given:  # what the training has drawn since stays drawn
            self._restore(now)
        return next(self._source)

    def _begin_again(self, failure: BaseException, given: int) -> Iterator[Any]:
        self._restore(self._start)
        close = getattr(getattr(self, "_source", None), "close", None)
        if close is not None:  # the error itself may keep it alive, and its workers
            close()
        self._owner.fall_back(failure)
        return self._owner.chosen._batches(given)

    def _now(self) -> tuple[dict[str, Any], list[Any], bool]:
        owner = self._owner
        return random_state(), own_states(owner.loader), owner.order.seeded

    def _restore(self, state: tuple[dict[str, Any], list[Any], bool]) -> None:
        restore_random_state(state[0])
        restore_own(self._owner.loader, state[1])
        self._owner.order.seeded = state[2]
