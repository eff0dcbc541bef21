"""Steps by the clock: single ones, blocks of them, and those before any are timed."""

import itertools
import statistics
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import DataLoader

from hasten.data.ahead.threaded import ThreadedLoader
from hasten.data.ahead.workers import WorkersLoader
from hasten.data.choosing.optimized import OptimizedLoader
from hasten.data.loaders.overlap import OverlappedLoader
from hasten.measure.marks import marks_for, wait_for
from hasten.measure.rest import wait_for_children_to_rest
from hasten.runtime.run import Run
from hasten.task import batch as batches

MOST_PREPARING = 32
"""Steps that a plan may take to prepare, such as those before a capture."""
USUAL_PREFETCH = 2
"""What a DataLoader with workers prefetches per worker where nothing is set."""
SLOW_STEP_S = 0.1
"""Between its blocks an arm runs for milliseconds before it is stopped: a loader whose batches feed
steps of this length gets no batch ahead by that."""
SHORT_S = 0.02
"""Of steps that use up what a loader holds ready: they are not worth asking whether it keeps up."""
WATCHED_STEPS = 8
NO_WAIT = 0.01
"""Of the time of steps: a loader that keeps them waiting for less keeps up with them."""


def timed_steps(run: Run, source: Iterator[Any], steps: int) -> tuple[float, int]:
    """Seconds and rows of whole steps, data wait included, until the device has done them."""
    start = time.perf_counter()
    rows = _take(run, source, steps)
    wait_for(run.pipeline.device)
    return time.perf_counter() - start, rows


def time_block(
    run: Run, source: Iterator[Any], steps: int, *, unmeasured: int = 1
) -> tuple[float, int]:
    """Seconds and rows of steps in the midst of others, by the clock of whoever does their work.

    A device is not waited for where they begin: what the host does while the device is still busy
    with the step before costs nothing in a long training, and must not in a short block.
    """
    marks = marks_for(run.pipeline.device, expected=2)
    _take(run, source, unmeasured)
    marks.mark()
    rows = _take(run, source, steps)
    marks.mark()
    return marks.spans()[0], rows


def _take(run: Run, source: Iterator[Any], steps: int) -> int:
    rows = 0
    for _ in range(steps):
        batch = next(source)
        run.step(batch)
        rows += batches.rows_in(batch)
    return rows


def warm(run: Run, source: Iterator[Any], steps: int) -> float:
    """Until nothing is being prepared any more, then ``steps`` more: the median of their times."""
    wait_for_children_to_rest()
    preparing = 0
    while run.is_warming and preparing < MOST_PREPARING:
        timed_steps(run, source, 1)
        preparing += 1
    return statistics.median(timed_steps(run, source, 1)[0] for _ in range(max(steps, 1)))


@contextmanager
def without_update(run: Run) -> Iterator[None]:
    """Steps neither clip nor update; a captured step does all the same."""
    own = vars(run.eager)
    own["update_weights"] = lambda: None
    try:
        yield
    finally:
        del own["update_weights"]


def prefetched(loader: object) -> int:
    """Batches that a loader may hold ready; a block must not count them as its own, and uses them
    up before it begins."""
    if isinstance(loader, OverlappedLoader):
        return 1 + prefetched(loader.loader)
    if isinstance(loader, OptimizedLoader):
        return prefetched(loader.chosen)
    if isinstance(loader, WorkersLoader | ThreadedLoader):
        return loader.ahead
    if not isinstance(loader, DataLoader):
        return 0
    return loader.num_workers * (loader.prefetch_factor or USUAL_PREFETCH)


def batches_ahead(run: Run, source: Iterator[Any], step_s: float) -> int:
    """Batches that the loader may get ahead by between two blocks, and that are not a training's.

    None where it keeps up with the steps: it then holds as many ready in a training too. To see
    that, what it holds is first taken from it and kept: steps on kept batches, in their order, then
    meet a loader that has nothing ready but what it makes while they run.
    """
    held = prefetched(run.pipeline.loader)
    if held == 0 or step_s > SLOW_STEP_S:
        return 0
    if held * step_s < SHORT_S:
        return held
    kept = deque(itertools.islice(source, held))
    waited_s = elapsed_s = 0.0
    for number in range(held + WATCHED_STEPS):
        start = time.perf_counter()
        kept.append(next(source))
        wait_s = time.perf_counter() - start
        took_s, _ = timed_steps(run, iter([kept.popleft()]), 1)
        if number >= held:  # before that its workers begin anew, several batches at once
            waited_s += wait_s
            elapsed_s += wait_s + took_s
    _take(run, iter(kept), held)
    return 0 if waited_s < NO_WAIT * elapsed_s else held


def has_workers(loader: object) -> bool:
    if isinstance(loader, OverlappedLoader):
        return has_workers(loader.loader)
    if isinstance(loader, OptimizedLoader):
        return has_workers(loader.chosen)
    if isinstance(loader, WorkersLoader):
        return loader.num_workers > 0
    return isinstance(loader, DataLoader) and loader.num_workers > 0
