"""Does the search for workers find what a full grid finds, in time and within its allowance?

On a task whose items are decoded as they are asked for, and on one whose data lies in memory. The
search runs as a user has it. Then every number of workers up to the cores, with 2 and 4 batches
ahead, every number of threads where they are safe, and the loader as it is, take turns in random
order; what was chosen takes two of them in each round. *Chosen against best* is the median over
rounds of the ratio of their rates; *noise* is how far the two turns of the same setting are apart
in the median.
Bars: at least 0.9, or within the noise; under 60 s; no more processes than cores, and no more
memory than was left. Exit 1 where one is missed.
"""

import argparse
import random
import statistics
import sys
import threading
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.ahead.foresight import Foresight
from hasten.data.ahead.threaded import cannot_thread
from hasten.data.choosing.allowance import Allowance
from hasten.data.choosing.rating import own_settings, rate_loading
from hasten.data.choosing.turns import Settings, take_turn
from hasten.data.loaders.order import Order
from hasten.records.loading import LoaderRating, ThreadSettings, WorkerSettings
from hasten.task.load import build_task, load_factory
from hasten.task.pipeline import Pipeline
from results_file import RESULTS, write_results

NEAR, MOST_S = 0.9, 60.0
IN_MEMORY = "in-memory"
LIMIT_S = 60.0


def main() -> None:
    arguments = _parse()
    figures: dict[str, Any] = {"bars": {"chosen_against_best": NEAR, "seconds": MOST_S}, "rows": []}
    for task in arguments.tasks.split(","):
        figures["rows"].append(measure(task, arguments))
        print(figures["rows"][-1], flush=True)
    write_results("worker-search", figures, commit=arguments.commit, folder=arguments.out)
    sys.exit(not all(row["holds"] for row in figures["rows"]))


def measure(task: str, arguments: argparse.Namespace) -> dict[str, Any]:
    loader = _loader(task, arguments.rows)
    allowance = Allowance.now()
    with Family() as family:
        found = rate_loading(loader, seconds=arguments.seconds)
    settings = _grid(loader, allowance)
    chosen = _chosen(found, loader)
    rates = _rates(loader, settings, chosen, arguments)
    best = max(settings, key=lambda each: statistics.median(rates[str(each)]))
    pairs = zip(rates[str(chosen)], rates[str(best)], strict=True)
    ratio = statistics.median(one / other for one, other in pairs)
    again = zip(rates[str(chosen)], rates["again"], strict=True)
    noise = statistics.median(abs(1 - one / other) for one, other in again)
    holds = {
        "near": ratio >= NEAR or 1 - ratio <= noise,
        "in_time": found.elapsed_s < MOST_S,
        "cores": family.most_processes <= max(int(allowance.cores), 1),
        "memory": family.most_bytes <= allowance.memory_bytes,
    }
    return {
        "task": task,
        "chosen": str(chosen),
        "best": str(best),
        "chosen_against_best": ratio,
        "noise": noise,
        "search_s": found.elapsed_s,
        "cores_allowed": allowance.cores,
        "most_processes": family.most_processes,
        "memory_allowed_bytes": allowance.memory_bytes,
        "most_bytes": family.most_bytes,
        "rows_per_s": {name: statistics.median(each) for name, each in rates.items()},
        "turns": rates,
        "holds": all(holds.values()),
        "bars_held": holds,
    }


class Family:
    """The most processes that this one had as children at a time, and the most memory that they
    had for themselves, looked at as often as possible."""

    def __init__(self) -> None:
        self.most_processes = self.most_bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Family":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            taken = [_own_bytes(each) for each in psutil.Process().children(recursive=True)]
            alive = [each for each in taken if each]
            self.most_processes = max(self.most_processes, len(alive))
            self.most_bytes = max(self.most_bytes, sum(alive))


def _own_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return 0  # it has just ended


def _loader(task: str, rows: int) -> DataLoader[Any]:
    if task == IN_MEMORY:
        return DataLoader(TensorDataset(torch.randn(rows, 1024)), batch_size=64, shuffle=True)
    loader = Pipeline.from_task(build_task(load_factory(task), task, seed=0)).loader
    assert isinstance(loader, DataLoader)
    return loader


def _grid(loader: DataLoader[Any], allowance: Allowance) -> list[Settings]:
    most = max(int(allowance.cores), 1)
    counts = range(1, most + 1) if most <= 8 else allowance.worker_counts()
    workers = [
        WorkerSettings(workers=count, prefetch=prefetch) for count in counts for prefetch in (2, 4)
    ]
    safe = cannot_thread(loader) is None
    threads = [ThreadSettings(threads=count, ahead=2 * count) for count in counts if safe]
    return [own_settings(loader), *workers, *threads]


def _chosen(found: LoaderRating, loader: DataLoader[Any]) -> Settings:
    """As it takes its turns: whether workers live on shows between epochs only."""
    if found.threads is not None:
        return found.threads
    if found.workers is None:
        return own_settings(loader)
    return WorkerSettings(workers=found.workers.workers, prefetch=found.workers.prefetch)


def _rates(
    loader: DataLoader[Any],
    settings: list[Settings],
    chosen: Settings,
    arguments: argparse.Namespace,
) -> dict[str, list[float]]:
    order = random.Random(arguments.seed)
    indices = cycle(list(islice(Foresight(Order(loader)), 10_000)))
    entries = [*{str(each): each for each in [*settings, chosen]}.items(), ("again", chosen)]
    rates: dict[str, list[float]] = {name: [] for name, _ in entries}
    for _ in range(arguments.rounds):
        for name, each in order.sample(entries, len(entries)):
            turn = take_turn(loader, each, indices, turn_s=arguments.turn_s, limit_s=LIMIT_S)
            rates[name].append(turn.rows / turn.seconds)
        time.sleep(0.1)
    return rates


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=f"gallery:lensing@full-files,{IN_MEMORY}")
    parser.add_argument("--rows", type=int, default=20_000, help="of the data in memory")
    parser.add_argument("--seconds", type=float, default=40.0, help="for the search")
    parser.add_argument("--rounds", type=int, default=9, help="of the full grid")
    parser.add_argument("--turn-s", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
