"""What does `hasten.profiled` cost a call, off and on?

An empty function, called plainly, decorated, and a region as a block; off, and with the log on and
every line written to a file that keeps nothing. In blocks that alternate in random order within
each round, in a process that has imported torch, as a training has. A difference is the median over
rounds of what a call takes more than the plain one.
"""

import argparse
import dataclasses
import logging
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

import hasten
from differences import difference_interval
from results_file import RESULTS, write_results

LOG = logging.getLogger("hasten.profiled")


def plain() -> None:
    pass


decorated = hasten.profiled("decorated")(plain)


def block() -> None:
    with hasten.profiled("block"):
        pass


WAYS: dict[str, tuple[Callable[[], None], bool, int]] = {
    "plain": (plain, False, 100_000),
    "decorated_off": (decorated, False, 100_000),
    "block_off": (block, False, 100_000),
    "decorated_on": (decorated, True, 5_000),
    "block_on": (block, True, 5_000),
}
"""What is called, whether the log is on, and how often in a block."""


def main() -> None:
    arguments = _parse()
    with open(os.devnull, "w") as nowhere:
        handler = logging.StreamHandler(nowhere)
        LOG.addHandler(handler)
        times = _run_rounds(arguments.rounds, random.Random(arguments.seed))
        LOG.removeHandler(handler)
    figures = {name: _describe(name, times) for name in WAYS}
    for name, row in figures.items():
        print(name, row)
    write_results(
        "regions",
        {"rounds": arguments.rounds, "torch": torch.__version__, **figures},
        commit=arguments.commit,
        folder=arguments.out,
    )


def _run_rounds(rounds: int, order: random.Random) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name in order.sample(list(WAYS), len(WAYS)):
            times[name].append(_time_block(*WAYS[name]))
    return times


def _time_block(call: Callable[[], None], on: bool, calls: int) -> float:
    """Nanoseconds of one call on its core, the loop around it included."""
    LOG.setLevel(logging.INFO if on else logging.NOTSET)
    start = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - start) / calls


def _describe(name: str, times: dict[str, list[float]]) -> dict[str, object]:
    row: dict[str, object] = {"median_ns": round(statistics.median(times[name]), 1)}
    if name != "plain":
        row["added_ns"] = dataclasses.asdict(difference_interval(times["plain"], times[name]))
    return row


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
