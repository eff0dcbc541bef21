"""What a perfect loader, or an optimizer that takes no time, could give: measured by doing without.

Method: one process alternates short blocks of steps, in random order within each round: real ones;
the same steps on batches that were kept on the device beforehand; real ones without the update.
A round gives a ratio for each, and the interval is that of ``stats.paired``. While kept batches are
replayed the loader's workers are stopped: else they would take cores from the steps that are to
show what no loader costs, and would have batches ready for the next real block that they could not
deliver in time. What they hold ready is used up before a real block is timed as well, unless they
keep up with the steps. Real blocks see every batch of the loader once and in its order, as if
nothing came between.

Limits: kept batches are few, and may stay in caches that fresh ones would not be in. Batches that a
loader prefetches in threads are prefetched during a replay too. A step that writes into its batch
does so again at each replay. The weights are none of a training afterwards.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from hasten.errors import HastenError
from hasten.measure.blocks import has_workers, time_block, without_update
from hasten.measure.compare import steps_of_block
from hasten.records.profile import Bound
from hasten.runtime.memory import free_bytes
from hasten.runtime.run import Run
from hasten.stats.paired import MINIMUM_ROUNDS, ratio_interval
from hasten.task import batch as batches
from hasten.task.seed import random_state, restore_random_state

PROBED_STEPS = 5
USUAL_S = 10.0
"""For all rounds, where steps are fast enough."""
LIMIT_S = 30.0
"""For the fewest rounds that give an interval: of steps that would take longer the phases tell
enough. Where steps turn out slower than those that were probed, no more than the fewest begin."""
FEWEST_KEPT = 4
"""Of slow steps, so that it is not one batch alone that stays in every cache."""
MEMORY_SHARE = 0.1
"""Of what is free, for batches that are kept."""

Block = Callable[[], float]
"""Runs a block of steps; its seconds per row."""


def measure_bounds(run: Run, source: Iterator[Any], ahead: int) -> tuple[Bound, ...]:
    """Without the loader and, unless the step is one graph, without the optimizer. ``ahead`` are
    the batches that the loader may get ahead by."""
    unmeasured = ahead + 1
    step_s = time_block(run, source, PROBED_STEPS, unmeasured=unmeasured)[0] / PROBED_STEPS
    steps = steps_of_block(step_s, ahead, run.pipeline.device.type)
    rounds = rounds_for(step_s, steps, unmeasured=unmeasured)
    kept = keep_batches(run, source, max(steps, FEWEST_KEPT))
    replayed = itertools.cycle(kept)
    ways: dict[str, Block] = {
        "real": lambda: _per_row(time_block(run, source, steps, unmeasured=unmeasured)),
        "loader": lambda: _per_row(replay_block(run, replayed, steps)),
    }
    how = {"loader": f"the same steps on {len(kept)} batches that were on the device already"}
    if run.pipeline.replay is None:
        ways["optimizer"] = lambda: _per_row(_block_without_update(run, source, steps, unmeasured))
        how["optimizer"] = "the same steps without clipping and updating"
    began = time.perf_counter()
    times = interleave(ways, rounds, limit_s=LIMIT_S)
    took_s = time.perf_counter() - began
    return tuple(_bound(name, times["real"], times[name], took_s, how[name]) for name in how)


def rounds_for(step_s: float, steps: int, *, unmeasured: int) -> int:
    """As many as usual seconds hold, and never fewer than give an interval."""
    round_s = step_s * (3 * steps + 2 * unmeasured + 1)
    if MINIMUM_ROUNDS * round_s > LIMIT_S:
        raise HastenError(
            f"Steps of {step_s:.1f} s are too slow to be done without things: that would take "
            f"{MINIMUM_ROUNDS * round_s:.0f} s."
        )
    return max(MINIMUM_ROUNDS, int(USUAL_S / round_s))


def keep_batches(run: Run, source: Iterator[Any], wanted: int) -> list[Any]:
    """Batches of the usual size that the next steps train on, on the device, as they are there.

    Fewer than ``wanted`` where they take much memory, and always one.
    """
    first = next(source)
    run.step(first)
    kept = [_on_device(run, first)]
    budget = MEMORY_SHARE * free_bytes(run.pipeline.device)
    each = sum(tensor.nbytes for tensor in batches.tensors_of(kept[0]))
    fitting = int(budget / max(each, 1))
    for _ in range(min(wanted, fitting) - 1):
        batch = next(source)
        run.step(batch)
        if batches.rows_in(batch) == batches.rows_in(first):  # not the last one of an epoch
            kept.append(_on_device(run, batch))
    return kept


def replay_block(run: Run, replayed: Iterator[Any], steps: int) -> tuple[float, int]:
    """Seconds and rows of steps without a loader. Random generators and carried state are put back,
    so that real steps go on as if it had not been."""
    pipeline, random_before = run.pipeline, random_state()
    carried, pipeline.carried_state = pipeline.carried_state, None
    try:
        with _loader_workers_stopped(pipeline.loader):
            return time_block(run, replayed, steps)
    finally:
        pipeline.carried_state = carried
        restore_random_state(random_before)


def _block_without_update(
    run: Run, source: Iterator[Any], steps: int, unmeasured: int
) -> tuple[float, int]:
    with without_update(run):
        return time_block(run, source, steps, unmeasured=unmeasured)


def interleave(
    ways: dict[str, Block], rounds: int, *, limit_s: float = math.inf
) -> dict[str, list[float]]:
    """Every way once a round, in random order. Behind ``limit_s`` no round begins, once there are
    as many as give an interval."""
    order = random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in ways}
    began = time.perf_counter()
    for taken in range(rounds):
        if taken >= MINIMUM_ROUNDS and time.perf_counter() - began >= limit_s:
            break
        for name in order.sample(list(ways), len(ways)):
            times[name].append(ways[name]())
    return times


def _bound(name: str, real: list[float], without: list[float], took_s: float, how: str) -> Bound:
    interval = ratio_interval(real, without, elapsed_s=took_s)
    return Bound(
        without=name,  # type: ignore[arg-type]
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        how=f"measured: {how}, in {len(real)} interleaved rounds",
    )


def _per_row(block: tuple[float, int]) -> float:
    seconds, rows = block
    return seconds / rows


def _on_device(run: Run, batch: Any) -> Any:
    """Resident rows are there already, and a captured step wants them as they are."""
    if isinstance(batch, batches.RowsOf):
        return batch
    return batches.move(batch, run.pipeline.device)


@contextmanager
def _loader_workers_stopped(loader: object) -> Iterator[None]:
    if not has_workers(loader):
        yield
        return
    stopped = psutil.Process().children(recursive=True)
    _signal(stopped, psutil.Process.suspend)
    try:
        yield
    finally:
        _signal(stopped, psutil.Process.resume)


def _signal(processes: list[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            send(process)
        except psutil.NoSuchProcess:
            continue  # its epoch has ended
