"""Which share of a step is spent waiting for data, on the device or prefetched?

A training by Hasten's engine takes its batches from the real loader or, as a perfect loader would
give them, from batches that were made before and lie on the device. Both are the same run: short
blocks of steps take turns in random order within each round, and before a block of the real loader
all that it holds ready is used up. The share is 1 - (time of replayed steps / time of real steps),
the median over rounds with a block-bootstrap interval; *of all* is that of the sums, which has the
ends of epochs in it. *At next()* is the share of the host's time in asking the loader, in a block
of its own: where the device is behind the host, that is time in which the device computes.

Steps are plain eager ones, and captured as one graph. Where data lies on the device the graph
gathers from it, so batches replayed to it are row numbers too; else they are tensors. Bar: under
2 % in the median. On a CPU it is a small smoke run that no bar is held against.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec
import torch

from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.chunks import MOST_BATCHES
from hasten.data.loaders.prefetched import AHEAD, PrefetchedLoader
from hasten.data.loaders.resident import ResidentLoader
from hasten.measure.blocks import time_block, timed_steps, warm
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.stats.paired import CONFIDENCE, MINIMUM_ROUNDS, ratio_interval
from hasten.task.batch import RowsOf, tensors_of
from hasten.task.load import build_task, load_factory
from hasten.task.pipeline import Pipeline
from results_file import RESULTS, write_results

BAR = 0.02
GRAPH = Plan(parts={"fused_optimizer": {}, "recurrent_state": {}, "whole_step_graph": {}})
REPLAYED_BYTES = 2**28
"""Of batches that are kept, or an epoch: several times what a device caches. No loader of a larger
data set could give batches that are in the cache already."""
BLOCK_S = 0.1


def main() -> None:
    arguments = _parse()
    device = torch.device(arguments.device)
    plans = {"eager": NAIVE} if device.type == "cpu" else {"eager": NAIVE, "graph": GRAPH}
    rows = []
    for task in arguments.tasks.split(","):
        for kind in ("resident", "prefetched"):
            for steps, plan in plans.items():
                row = {"task": task, "data": kind, "steps": steps}
                rows.append(row | measure(task, kind, plan, device, arguments.seconds))
                print(_line(rows[-1]), flush=True)
                figures = {"bar": BAR, "confidence": CONFIDENCE, "rows": rows}
                where = {"commit": arguments.commit, "folder": arguments.out}
                write_results(f"data-wait-{device.type}", figures, **where)
    missed = [row for row in rows if row["share"] >= BAR]
    if missed and device.type == "cuda":
        sys.exit(1)


def measure(
    task: str, kind: str, plan: Plan, device: torch.device, seconds: float
) -> dict[str, Any]:
    run = _make_run(task, kind, plan, device)
    real = run.endless()
    step_s = warm(run, real, 20)
    replayed = _replay(run, real)
    steps = max(round(BLOCK_S / step_s), 5) if device.type == "cuda" else 5
    held = (AHEAD + 1) * MOST_BATCHES if kind == "prefetched" and device.type == "cuda" else 1
    sources = {"real": (real, held), "replayed": (replayed, 1)}
    took: dict[str, list[float]] = {name: [] for name in sources}
    order, started = random.Random(0), time.monotonic()
    while time.monotonic() - started < seconds or len(took["real"]) < MINIMUM_ROUNDS:
        for name in order.sample(list(sources), 2):
            source, unmeasured = sources[name]
            took[name].append(time_block(run, source, steps, unmeasured=unmeasured)[0])
    elapsed = time.monotonic() - started
    interval = ratio_interval(took["real"], took["replayed"], elapsed_s=elapsed)
    return {
        "share": 1 - 1 / interval.ratio,
        "low": 1 - 1 / interval.low,
        "high": 1 - 1 / interval.high,
        "of_all": 1 - sum(took["replayed"]) / sum(took["real"]),
        "at_next": _at_next(run, real, steps),
        "step_us": statistics.median(took["real"]) / steps * 1e6,
        "replayed_step_us": statistics.median(took["replayed"]) / steps * 1e6,
        "steps_per_block": steps,
        "rounds": len(took["real"]),
        "applied": msgspec.to_builtins(run.applied),
        "block_s": took,
    }


def _make_run(task: str, kind: str, plan: Plan, device: torch.device) -> Run:
    pipeline = Pipeline.from_task(build_task(load_factory(task), task, 0))
    loader: Any = pipeline.loader
    if kind == "resident":
        pipeline.loader = ResidentLoader(loader, device)
    else:
        pipeline.loader = PrefetchedLoader(BatchedLoader(loader), device)
    return Run(pipeline, plan)


def _replay(run: Run, real: Iterator[Any]) -> Iterator[Any]:
    """Batches that are ready; to a captured step row numbers are, to an eager one tensors."""
    one = next(real)
    enough = min(REPLAYED_BYTES // _bytes_in(one), len(run.pipeline.loader))
    kept = [one, *islice(real, enough)]
    if not run.plan.parts:
        kept = [list(batch) if isinstance(batch, RowsOf) else batch for batch in kept]
    timed_steps(run, iter(kept), len(kept))
    return cycle(kept)


def _bytes_in(batch: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(batch))


def _at_next(run: Run, real: Iterator[Any], steps: int) -> float:
    timed_steps(run, real, 1)
    asking, started = 0.0, time.perf_counter()
    for _ in range(steps):
        asked = time.perf_counter()
        batch = next(real)
        asking += time.perf_counter() - asked
        run.step(batch)
    timed_steps(run, real, 1)
    return asking / (time.perf_counter() - started)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['task']:24}{row['data']:12}{row['steps']:7}{row['share']:8.2%}"
        f" [{row['low']:.2%}, {row['high']:.2%}] of {row['step_us']:,.0f} us"
        f"  of all {row['of_all']:.2%}  at next() {row['at_next']:.2%}  {row['rounds']} rounds"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cuda = torch.cuda.is_available()
    size = "@full" if cuda else ""
    parser.add_argument("--tasks", default=f"gallery:bloom{size},gallery:battery{size}")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if cuda else "cpu")
    parser.add_argument("--seconds", type=float, default=20.0, help="of rounds, for each row")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
