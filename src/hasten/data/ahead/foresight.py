"""The indices of an epoch before their time, and nothing drawn for it.

Whoever loads ahead must know what comes next. A sampler that is asked early draws early, and what
the training draws in between would be other numbers. So a copy of the sampler is asked, with the
random generators where they stand now and put back afterwards; the user's own sampler is asked at
its usual moments. Where both say the same the batch that was made ahead is the right one. Where
they do not, as with a sampler that draws as it goes from a generator that the training draws from
too, whoever loads ahead can tell, and makes that batch in its turn.
"""

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from hasten.data.loaders.order import DRAWING_AT_THE_START, Order, cannot_take_whole
from hasten.task.seed import host_random_state, restore_host_random_state

UNCOPIED = ("data_source", "dataset")
"""What a sampler may hold of the data, which is not copied with it."""
CANNOT_COPY = (TypeError, AttributeError, RuntimeError, NotImplementedError, pickle.PicklingError)


class Foresight:
    """An iterator of the epoch that ``order`` would begin now, behind its first ``given`` batches.
    Raises one of ``CANNOT_COPY``."""

    def __init__(self, order: Order, given: int = 0) -> None:
        shadow = copy.copy(order)
        shadow.loader = _shadow_of(order.loader)
        self._state = host_random_state()
        self._draws_on = cannot_take_whole(order.loader) is not None
        """Whether indices behind the first may be drawn too; putting generators back takes long."""
        self._begun = False
        with self._in_its_own_time():
            self._indices = shadow.behind(given)

    def catch_up(self) -> None:
        """What is still to be drawn is drawn from where the generators stand now."""
        self._state = host_random_state()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._begun and not self._draws_on:
            return next(self._indices)
        self._begun = True
        with self._in_its_own_time():
            return next(self._indices)

    @contextmanager
    def _in_its_own_time(self) -> Iterator[None]:
        now = host_random_state()
        restore_host_random_state(self._state)
        try:
            yield
        finally:
            self._state = host_random_state()
            restore_host_random_state(now)


def _shadow_of(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The same loader with samplers and generators of its own. It is never iterated."""
    shadow = copy.copy(loader)
    vars(shadow)["batch_sampler"], vars(shadow)["generator"] = _copies(loader)
    return shadow


def _copies(loader: DataLoader[Any]) -> tuple[Any, torch.Generator | None]:
    batches = loader.batch_sampler
    shared: dict[int, Any] = {id(loader.dataset): loader.dataset}
    for holder in (batches, getattr(batches, "sampler", None)):
        plain = type(holder) in DRAWING_AT_THE_START  # only its generator has a state
        for name, held in getattr(holder, "__dict__", {}).items():
            data = isinstance(held, Tensor | np.ndarray) or name in UNCOPIED
            if data or (plain and not isinstance(held, torch.Generator)):
                shared[id(held)] = held
    copied: tuple[Any, torch.Generator | None] = copy.deepcopy((batches, loader.generator), shared)
    return copied


def same_indices(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, list | tuple) and len(one) == len(other):
        return all(map(_same_index, one, other))
    return bool(one == other)


def _same_index(one: Any, other: Any) -> bool:
    return same_indices(one, other) if isinstance(one, Tensor | np.ndarray) else bool(one == other)
