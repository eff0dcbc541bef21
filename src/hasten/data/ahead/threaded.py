"""Batches made ahead by threads, in the order and with the randomness of a DataLoader.

Worth it where making them releases Python's lock: reading files, unpacking, numpy. Nothing is
copied between processes, and no process is started.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader

from hasten.data.ahead.foreseen import ForeseenLoader
from hasten.data.ahead.foresight import Foresight
from hasten.data.ahead.manner import Manner, manner_of
from hasten.data.ahead.workers import cannot_foresee
from hasten.errors import HastenError
from hasten.records.loading import ThreadSettings

THREAD_NAME = "hasten-loader"


class ThreadedLoader(ForeseenLoader):
    """Yields what ``loader`` would, bit for bit. Each thread makes whole batches, reading and
    collating; they end with the epoch. ``notes`` say what came otherwise than expected."""

    def __init__(
        self, loader: DataLoader[Any], threads: int, ahead: int, *, manner: Manner | None = None
    ) -> None:
        reason = cannot_thread(loader, manner=manner)
        if reason:
            raise HastenError(
                f"This loader cannot be given threads: {reason}.", fix="Keep it as it is."
            )
        super().__init__(loader)
        self.settings = ThreadSettings(threads=threads, ahead=ahead)

    @property
    def ahead(self) -> int:
        """Batches that may be ready or under way."""
        return self.settings.ahead

    def start(self, foresight: Foresight) -> "ThreadedBatches":
        return ThreadedBatches(self.make, self.settings, foresight)


class ThreadedBatches:
    """What ``make`` gives for each of ``indices``, in order, by threads."""

    def __init__(
        self, make: Callable[[Any], Any], settings: ThreadSettings, indices: Iterator[Any]
    ) -> None:
        self._make, self._indices = make, indices
        self._pool = ThreadPoolExecutor(settings.threads, THREAD_NAME)
        self._under_way: deque[tuple[Any, Future[Any]]] = deque()
        for _ in range(settings.ahead):
            self._send_next()

    def next(self) -> tuple[Any, Any]:
        if not self._under_way:
            return None, None
        indices, batch = self._under_way.popleft()
        self._send_next()
        return indices, batch.result()

    def end(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _send_next(self) -> None:
        for indices in islice(self._indices, 1):
            self._under_way.append((indices, self._pool.submit(self._make, indices)))


def cannot_thread(loader: object, *, manner: Manner | None = None) -> str | None:
    """Why ``loader`` cannot be replaced by a ThreadedLoader; None where it can."""
    reason = cannot_foresee(loader)
    if reason:
        return reason
    assert isinstance(loader, DataLoader)  # held by cannot_foresee
    found = manner or manner_of(loader)
    if found.handles:
        return f"{found.handles}; threads would share them too"
    return found.on_device or found.random or found.stateful or found.unsure or found.unknown
