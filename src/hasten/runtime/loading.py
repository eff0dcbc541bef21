"""The batches of an epoch, whatever happens to the technique that loads them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hasten.data.loaders.epochs import EpochStart, begin_at
from hasten.data.loaders.stand_in import StandIn
from hasten.runtime import fallback
from hasten.task.seed import random_state, restore_random_state

if TYPE_CHECKING:
    from hasten.runtime.run import Run


class GuardedLoader(StandIn):
    """A loader that a technique has put in the place of the user's own, which it looks like.

    If it fails the epoch goes on from the user's own, at the same batch and with the random
    generators where they would have been.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run

    @property
    def loader(self) -> Any:
        return self._run.pipeline.loader

    def __iter__(self) -> Iterator[Any]:
        return Epoch(self._run)


class Epoch:
    """Begun at once, as a DataLoader is: it draws from the random generators when it begins.

    With ``start`` it is the epoch that began there, behind its first ``given`` batches.
    """

    def __init__(
        self, run: "Run", start: EpochStart | None = None, given: int = 0, *, replay: bool = False
    ) -> None:
        self._run = run
        self._loader = run.pipeline.loader
        self._replay = replay
        self.given = given
        """Batches that were handed out."""
        self.start = start or EpochStart.now(self._loader, later=run.epochs_begun > 0)
        if start is None:
            run.epochs_begun += 1
            self._source = fallback.load(run, self._loader, self._begin, self._begin_again)
        else:
            self._source = fallback.load(run, self._loader, self._begin_there, self._begin_again)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = fallback.load(self._run, self._loader, self._next, self._next_of_another)
        self.given += 1
        return batch

    def _begin(self) -> Iterator[Any]:
        return iter(self._loader)

    def _begin_there(self) -> Iterator[Any]:
        return begin_at(self._loader, self.start, self.given, replay=self._replay)

    def _next(self) -> Any:
        return next(self._source)

    def _next_of_another(self) -> Any:
        self._source = self._begin_again()
        return next(self._source)

    def _begin_again(self) -> Iterator[Any]:
        """The epoch of the loader that is left, from its beginning up to where this one was."""
        now = random_state()
        self._loader = self._run.pipeline.loader
        source = self._begin_there()
        if self.given:  # what the steps since have drawn stays drawn
            restore_random_state(now)
        return source
