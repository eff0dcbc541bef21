"""A collate function that tells whether random numbers were drawn for its batch."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hasten.task.seed import host_random_state, same_host_random_state


class Drew(NamedTuple):
    """A batch for which random numbers were drawn."""

    batch: Any


class Watch:
    """Runs in a loader worker around the user's functions. To compare the generators takes some
    tenths of a millisecond a batch.

    A dataset with a random generator of its own is not seen through.
    """

    def __init__(self, collate: Callable[[Any], Any], begin: Callable[[int], None] | None) -> None:
        self._collate = collate
        self._begin = begin
        self._state: dict[str, Any] | None = None

    def begin(self, worker: int) -> None:
        if self._begin is not None:
            self._begin(worker)
        self._state = host_random_state()

    def collate(self, items: Any) -> Any:
        batch = self._collate(items)
        if self._state is not None and same_host_random_state(self._state):
            return batch
        self._state = host_random_state()
        return Drew(batch)
