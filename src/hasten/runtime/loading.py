"""The batches of an epoch, whatever happens to the technique that loads them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from hasten.data.stand_in import StandIn
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
        return _Epoch(self._run)


class _Epoch:
    """Begun at once, as a DataLoader is: it draws from the random generators when it begins."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._given = 0
        self._start = random_state()
        self._generators = [(each, each.get_state()) for each in _generators(run.pipeline.loader)]
        self._loader = run.pipeline.loader
        self._source = fallback.load(run, self._loader, self._begin, self._begin_again)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = fallback.load(self._run, self._loader, self._next, self._next_of_another)
        self._given += 1
        return batch

    def _begin(self) -> Iterator[Any]:
        return iter(self._run.pipeline.loader)

    def _next(self) -> Any:
        return next(self._source)

    def _next_of_another(self) -> Any:
        self._source = self._begin_again()
        return next(self._source)

    def _begin_again(self) -> Iterator[Any]:
        """The epoch of the loader that is left, from its beginning up to where this one was."""
        now = random_state()
        self._loader = self._run.pipeline.loader
        restore_random_state(self._start)
        for generator, state in self._generators:
            generator.set_state(state)
        source = self._begin()
        for _ in range(self._given):
            next(source)
        if self._given:  # what the steps since have drawn stays drawn
            restore_random_state(now)
        return source


def _generators(loader: Any) -> list[torch.Generator]:
    holders = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(each): each for each in found if isinstance(each, torch.Generator)}.values())
