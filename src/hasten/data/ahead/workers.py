"""Batches made ahead by worker processes, in the order and with the randomness of a DataLoader."""

import multiprocessing.connection
import pickle
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _remove_worker_pids, _set_worker_pids
from torch.utils.data import DataLoader, IterableDataset

from hasten.data.ahead.foreseen import OTHER_STREAM, ForeseenLoader
from hasten.data.ahead.foresight import CANNOT_COPY, Foresight
from hasten.data.ahead.manner import ITERABLE, Manner, manner_of
from hasten.data.ahead.watched import Watch
from hasten.data.freezing.owned import state_of
from hasten.data.loaders.order import Order
from hasten.errors import HastenError, in_a_line
from hasten.records.loading import WorkerSettings

DYING_S = 1.0
"""A process whose connection broke is gone by then."""


class WorkerDiedError(HastenError):
    """A worker process ended before its work was done, by a signal or by itself."""


class WorkersLoader(ForeseenLoader):
    """Yields what ``loader`` would, bit for bit, by a DataLoader rebuilt with other workers.

    Workers see the dataset as it is when they start: those that live on from epoch to epoch are
    started anew where it was seen to change.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        settings: WorkerSettings,
        *,
        random: bool = False,
        manner: Manner | None = None,
    ) -> None:
        """``random``: items may draw random numbers, which are then others than before. ``manner``:
        what is known of the dataset; else it is read now."""
        reason = cannot_work(loader, settings, random=random, manner=manner)
        if reason:
            raise HastenError(
                f"This loader cannot be given workers: {reason}.", fix="Keep it as it is."
            )
        super().__init__(loader, random=random)
        self.settings = settings
        self.in_turn = not settings.workers
        self._seeds = torch.Generator().manual_seed(torch.initial_seed())
        self._living: DataLoader[Any] | None = None
        self._seen = ""
        self._user: weakref.ref[_Source] | None = None

    @property
    def num_workers(self) -> int:
        return self.settings.workers

    @property
    def ahead(self) -> int:
        """Batches that may be ready or under way."""
        return self.settings.ahead

    def close(self) -> None:
        iterator: Any = self._living._iterator if self._living is not None else None
        if iterator is not None:
            iterator._shutdown_workers()
        self._living = None

    def __del__(self) -> None:
        if "_living" in vars(self):
            self.close()

    def start(self, foresight: Foresight) -> "_Source":
        """Workers that live on are for one epoch at a time; another beside it has its own."""
        in_use = self._user is not None and (user := self._user()) is not None and not user.ended
        if not self.settings.persistent or in_use:
            return _Source(rebuild(self.loader, self.settings, generator=self._seeds), foresight)
        now = state_of(self.loader.dataset, whole=False)
        if now != self._seen:
            self.close()
        if self._living is None:
            self._living = rebuild(self.loader, self.settings, generator=self._seeds)
            self._seen = now
        source = _Source(self._living, foresight)
        self._user = weakref.ref(source)
        return source


class _Source:
    """One epoch of a rebuilt loader.

    torch raises an error wherever the training is when a worker dies; without that it could wait
    for one for ever. Here that is so only while a batch is waited for: what dies at another time is
    found when the next one is asked for.
    """

    def __init__(self, loader: DataLoader[Any], foresight: Foresight) -> None:
        feed = loader.batch_sampler
        assert isinstance(feed, Feed)  # put there by rebuild
        self._given = feed.begin(foresight)
        self._lives_on = loader.persistent_workers
        self._batches: Any = iter(loader)
        self._unwatch()
        self._number = 0
        self.ended = False

    def next(self) -> tuple[Any, Any]:
        foreseen = self._given.popleft() if self._given else None
        self._number += 1
        try:
            self._watch()
            self._raise_if_dead(0.0)
            return foreseen, next(self._batches)
        except StopIteration:
            return None, None
        except (RuntimeError, ConnectionError, EOFError) as error:
            self._unwatch()  # or torch raises once more, in the midst of what follows
            self._raise_if_dead(0.0 if isinstance(error, RuntimeError) else DYING_S, error)
            raise  # the dataset's own, which has the worker's traceback
        finally:
            self._unwatch()

    def end(self) -> None:
        self.ended = True
        if not self._lives_on:
            self._batches._shutdown_workers()

    def _watch(self) -> None:
        workers = tuple(each.pid for each in self._batches._workers)
        if not (self._batches._worker_pids_set or self._batches._shutdown):
            _set_worker_pids(id(self._batches), workers)
            self._batches._worker_pids_set = True

    def _unwatch(self) -> None:
        if self._batches._worker_pids_set:
            _remove_worker_pids(id(self._batches))
            self._batches._worker_pids_set = False

    def _raise_if_dead(self, dying_s: float, error: BaseException | None = None) -> None:
        if self._batches._shutdown:
            return
        dead = _ended_workers(self._batches, dying_s)
        if dead:
            self._batches._shutdown_workers()
            raise WorkerDiedError(
                f"Loader {dead}, while batch {self._number} of the epoch was to come.",
                fix="Signal 9 is the kernel's where memory runs out: ask for fewer workers.",
            ) from error


def _ended_workers(batches: Any, dying_s: float) -> str:
    """In words; "" where all live, and none ends within ``dying_s``."""
    sentinels = [each.sentinel for each in batches._workers]
    gone = multiprocessing.connection.wait(sentinels, dying_s)
    dead = [(at, each) for at, each in enumerate(batches._workers) if each.sentinel in gone]
    words = []
    for at, each in dead:
        each.join()  # its files are closed a moment before it has ended
        code = each.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        words.append(f"worker {at} (process {each.pid}) ended {how}")
    return ", ".join(words)


class Feed:
    """Stands where a DataLoader has its batch sampler, and says what was foreseen."""

    def __init__(self) -> None:
        self._indices: Iterator[Any] = iter(())

    def begin(self, foresight: Iterator[Any]) -> deque[Any]:
        """Of an epoch; returns where it will note what it said."""
        said: deque[Any] = deque()

        def indices() -> Iterator[Any]:
            for each in foresight:
                said.append(each)
                yield each

        self._indices = indices()
        return said

    def __iter__(self) -> Iterator[Any]:
        return self._indices  # the same however often it is asked for


def rebuild(
    loader: DataLoader[Any],
    settings: WorkerSettings,
    *,
    generator: torch.Generator,
    timeout_s: float | None = None,
) -> DataLoader[Any]:
    """A DataLoader with these workers that is fed with indices; draws from ``generator`` only."""
    watch = Watch(loader.collate_fn, loader.worker_init_fn)
    return DataLoader(
        loader.dataset,
        batch_sampler=Feed(),
        num_workers=settings.workers,
        prefetch_factor=settings.prefetch,
        persistent_workers=settings.persistent,
        collate_fn=watch.collate,
        worker_init_fn=watch.begin,
        pin_memory=settings.pin and torch.accelerator.is_available(),
        timeout=loader.timeout if timeout_s is None else timeout_s,
        generator=generator,
        multiprocessing_context=settings.start or loader.multiprocessing_context,
    )


def cannot_work(
    loader: object,
    settings: WorkerSettings,
    *,
    random: bool = False,
    manner: Manner | None = None,
) -> str | None:
    """Why ``loader`` cannot be replaced by a WorkersLoader; None where it can."""
    reason = cannot_foresee(loader)
    if reason:
        return reason
    assert isinstance(loader, DataLoader)  # held by cannot_foresee
    found = manner or manner_of(loader)
    if found.handles:
        return _cannot_spawn(loader, settings, found.handles)
    if found.random and not random:
        return f"{found.random}, which would be others in workers ({OTHER_STREAM})"
    return found.on_device or found.stateful or found.unknown


def cannot_foresee(loader: object) -> str | None:
    """Why what it will yield cannot be made ahead, as far as its kind tells."""
    if type(loader) is not DataLoader:
        return f"it is a {type(loader).__name__}, not a plain DataLoader"
    if isinstance(loader.dataset, IterableDataset):
        return ITERABLE
    if loader.batch_sampler is None:
        return "it makes no batches"
    try:
        Foresight(Order(loader))
    except CANNOT_COPY as error:
        kind = type(loader.batch_sampler).__name__
        return f"its sampler, a {kind}, cannot be copied to look ahead: {in_a_line(str(error))}"
    return None


def _cannot_spawn(loader: DataLoader[Any], settings: WorkerSettings, handles: str) -> str | None:
    if settings.start != "spawn":
        return handles
    try:
        pickle.dumps((loader.dataset, loader.collate_fn, loader.worker_init_fn))
    except (*CANNOT_COPY, OSError, ValueError) as error:
        return f"{handles}; nor can it be sent to spawned ones: {in_a_line(str(error))}"
    return None
