"""How fast do loaders of in-memory data hand out batches, with nothing done to them?

One run, epochs of all loaders interleaved in random order within each round. *Limit* is what no
loader can beat who makes a batch at a time: ``index_select`` of the pieces of a permutation.
*Batched* is ours. *DataLoader* reads row by row in this process; *workers* is the best setting of a
small grid, found in a round of its own. Epochs of the slow ones are cut short, and rates are rows
per second of what was handed out. Ratios are of one round, and of all rounds the median is told
with the smallest and the largest.

Bars, of the medians: batched is at least 0.8 of the limit, 2 times the DataLoader and 4 times the
best setting of workers, for each shape with batches of 64 rows. Others are told, not judged.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.loaders.batched import BatchedLoader
from hasten.host.cores import cores_allowed
from results_file import RESULTS, write_results

SHAPES = ((100_000, 1024), (1_000_000, 16))
SIZES = (64, 16, 256, 1024)
JUDGED = 64
BARS = {"limit": 0.8, "DataLoader": 2.0, "workers": 4.0}
GRID = [
    {"num_workers": workers, "prefetch_factor": prefetch, "persistent_workers": True}
    for workers in (1, 2, 4, 8)
    for prefetch in (2, 8)
]
Arm = Callable[[], Iterable[Any]]


def main() -> None:
    arguments = _parse()
    rows, missed = [], []
    for count, width in SHAPES:
        dataset = TensorDataset(torch.randn(count // arguments.smaller, width))
        for size in SIZES:
            row = measure(dataset, size, arguments)
            rows.append(row)
            print(_line(row), flush=True)
            if size == JUDGED:
                missed += [f"{row['shape']}: {name}" for name in BARS if not row["holds"][name]]
            figures = {"bars": BARS, "judged_batch_size": JUDGED, "rows": rows}
            where = {"commit": arguments.commit, "folder": arguments.out}
            write_results("loaders", figures, **where)
    if missed:
        print("missed:", ", ".join(missed))
        sys.exit(1)


def measure(dataset: TensorDataset, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    grid = [each for each in GRID if each["num_workers"] <= cores_allowed()] or GRID[:1]
    trials = {str(each): _rate(_loader(dataset, size, **each), arguments.seconds) for each in grid}
    best = max(grid, key=lambda each: trials[str(each)])
    plain, workers = _loader(dataset, size), _loader(dataset, size, **best)
    batched = BatchedLoader(_loader(dataset, size))
    arms: dict[str, Arm] = {
        "limit": lambda: _limit(dataset, size),
        "batched": lambda: batched,
        "DataLoader": lambda: plain,
        "workers": lambda: workers,
    }
    order = random.Random(size)
    rounds: list[dict[str, float]] = []
    for _ in range(arguments.rounds):
        names = order.sample(list(arms), len(arms))
        rounds.append({name: _rate(arms[name](), arguments.seconds) for name in names})
    ratios = {name: [each["batched"] / each[name] for each in rounds] for name in BARS}
    return {
        "shape": [len(dataset), dataset.tensors[0].shape[1]],
        "batch_size": size,
        "rows_per_s": {name: statistics.median(each[name] for each in rounds) for name in arms},
        "ratios": {
            name: {"median": statistics.median(each), "least": min(each), "most": max(each)}
            for name, each in ratios.items()
        },
        "holds": {name: statistics.median(ratios[name]) >= bar for name, bar in BARS.items()},
        "best_workers": best,
        "grid_rows_per_s": trials,
        "rounds": rounds,
    }


def _loader(dataset: TensorDataset, size: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=size, shuffle=True, **options)


def _limit(dataset: TensorDataset, size: int) -> Iterator[Any]:
    for rows in torch.randperm(len(dataset)).split(size):
        yield [tensor.index_select(0, rows) for tensor in dataset.tensors]


def _rate(loader: Iterable[Any], seconds: float) -> float:
    """Rows per second of an epoch, or of the part of it that ``seconds`` are enough for."""
    source = iter(loader)
    next(source)  # starts workers, and draws the order
    rows, started = 0, time.perf_counter()
    while True:
        given = 0
        for batch in islice(source, 50):
            rows += len(batch[0])
            given += 1
        elapsed = time.perf_counter() - started
        if given < 50 or elapsed > seconds:
            return rows / elapsed


def _line(row: dict[str, Any]) -> str:
    shown = (
        f"{name} {each['median']:.2f}x [{each['least']:.2f}, {each['most']:.2f}]"
        for name, each in row["ratios"].items()
    )
    rate = row["rows_per_s"]["batched"]
    return f"{row['shape']}, {row['batch_size']} a batch: {rate:,.0f} rows/s; " + "; ".join(shown)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one epoch, at most")
    parser.add_argument("--smaller", type=int, default=1, help="tables so many times smaller")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
