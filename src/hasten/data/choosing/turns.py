"""One short turn of loading with nobody training, so that nothing of the user's is changed.

Workers are started for the turn and ended with it. What would be read in this process, by itself or
by threads, is read in a copy of it. A turn begins to count when every worker has made a batch:
nothing can be ready from before, since all of them have just begun.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from hasten.data.ahead.manner import in_a_copy
from hasten.data.ahead.threaded import ThreadedBatches
from hasten.data.ahead.workers import Feed, rebuild
from hasten.data.loaders.epochs import make_batch
from hasten.records.loading import ThreadSettings, WorkerSettings

Settings = WorkerSettings | ThreadSettings


@dataclass(frozen=True)
class Turn:
    rows: int
    batches: int
    seconds: float
    taken: int
    """Batches of indices that were used, those that did not count too."""
    start_s: float
    """Until the first batch was there."""
    batch_bytes: int
    worker_bytes: int | None = None


def take_turn(
    loader: DataLoader[Any],
    settings: Settings,
    indices: Iterator[Any],
    *,
    turn_s: float,
    limit_s: float,
) -> Turn:
    """Load for ``turn_s``, and never for longer than ``limit_s``. Raises what the dataset raises,
    ForkFailed, or RuntimeError where no batch came in time."""
    if isinstance(settings, WorkerSettings) and settings.workers:
        return _by_workers(loader, settings, indices, turn_s, limit_s)
    turn = in_a_copy(lambda: _here(loader, settings, indices, turn_s), limit_s)
    for _ in islice(indices, turn.taken):  # they were taken in the copy only
        pass
    return turn


def _by_workers(
    loader: DataLoader[Any],
    settings: WorkerSettings,
    indices: Iterator[Any],
    turn_s: float,
    limit_s: float,
) -> Turn:
    seeds = torch.Generator().manual_seed(0)
    rebuilt = rebuild(loader, settings, generator=seeds, timeout_s=limit_s)
    assert isinstance(rebuilt.batch_sampler, Feed)  # put there by rebuild
    said = rebuilt.batch_sampler.begin(indices)
    batches: Any = iter(rebuilt)
    try:
        turn = _count(batches, said, settings.workers, turn_s)
        worker_bytes = psutil.Process(batches._workers[0].pid).memory_full_info().uss
    finally:
        batches._shutdown_workers()
    return Turn(*turn, worker_bytes)


def _here(
    loader: DataLoader[Any], settings: Settings, indices: Iterator[Any], turn_s: float
) -> Turn:
    said: deque[Any] = deque()
    if isinstance(settings, WorkerSettings):
        alone = (make_batch(loader, each) for each in _noting(indices, said))
        return Turn(*_count(alone, said, 1, turn_s))
    source = ThreadedBatches(partial(make_batch, loader), settings, _noting(indices, said))
    try:
        threaded = (source.next()[1] for _ in repeat(None))
        return Turn(*_count(threaded, said, settings.threads, turn_s))
    finally:
        source.end()


def _noting(indices: Iterator[Any], said: deque[Any]) -> Iterator[Any]:
    for each in indices:
        said.append(each)
        yield each


def _count(
    batches: Iterator[Any], said: deque[Any], makers: int, turn_s: float
) -> tuple[int, int, float, int, float, int]:
    """Whole rounds of all makers, since their batches come in bursts; one at least."""
    asked = time.perf_counter()
    last = next(batches)
    start_s = time.perf_counter() - asked
    for _ in range(makers - 1):
        last = next(batches)
    counted = 0
    began = time.perf_counter()
    while not counted or time.perf_counter() - began < turn_s:
        for _ in range(makers):
            last = next(batches)
        counted += makers
    seconds = time.perf_counter() - began
    rows = sum(map(_rows, islice(said, makers, makers + counted)))
    size = sum(leaf.nbytes for leaf in pytree.tree_leaves(last) if isinstance(leaf, Tensor))
    return rows, counted, seconds, len(said), start_s, size


def _rows(indices: Any) -> int:
    return len(indices) if hasattr(indices, "__len__") else 1
