"""How much host time does a step engine add to a small step?

A hand-written loop against ``Run`` with the empty plan, Fabric and Accelerate; one with a fused
optimizer against ``Run`` with that technique, which notes before each step what a redo would need;
and on CUDA a hand-written graph against ``Run`` with a captured step. All in one process, in blocks
that alternate in random order within each round. The time is the host's: the device is waited for
before a block and after its clock has stopped, and a block is short enough for the launch queue.
The time until the device is done stands beside it. A difference is the median over rounds of what
a step takes more than by hand.
"""

import argparse
import dataclasses
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import small_steps
from arms import workload
from device_counts import count_on_device
from differences import difference_interval
from hasten.errors import HastenError
from results_file import RESULTS, write_results

COMPARISONS: dict[str, list[Callable[[], small_steps.Way]]] = {
    "eager": [
        small_steps.by_hand,
        small_steps.by_hand_again,
        small_steps.hasten,
        small_steps.fabric,
        small_steps.accelerate,
    ],
    "guarded": [small_steps.fused_by_hand, small_steps.hasten_fused],
    "graph": [small_steps.graph_by_hand, small_steps.hasten_graph],
}
"""The first of each is what the others are compared with."""
WARM_STEPS = 50


def main() -> None:
    arguments = _parse()
    workload.choose_device(arguments.device)
    torch.set_num_threads(1)  # so small a step gains nothing by more, and they wait for each other
    figures: dict[str, Any] = {"rounds": arguments.rounds, "steps_per_block": arguments.steps}
    for name, makers in COMPARISONS.items():
        figures[name] = compare(makers, arguments)
        _print_table(name, figures[name])
        write_results(
            f"overhead-{arguments.device}",
            figures,
            commit=arguments.commit,
            folder=arguments.out,
        )


def compare(
    makers: list[Callable[[], small_steps.Way]], arguments: argparse.Namespace
) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    ways = {make.__name__: way for make in makers if (way := _make(make, rows)) is not None}
    times = _run_rounds(ways, arguments)
    base = makers[0].__name__
    for name, way in ways.items():
        rows[name] = {
            "outcome": "measured",
            **way.describe(),
            **_describe(times[name], times.get(base), is_base=name == base),
            **(count_on_device(way.step) if workload.on_cuda() else {}),
        }
    return rows


def _make(make: Callable[[], small_steps.Way], rows: dict[str, Any]) -> small_steps.Way | None:
    try:
        way = make()
        for _ in range(WARM_STEPS):
            way.step()
    except workload.NotInstalledError as error:
        rows[make.__name__] = {"outcome": "not installed", "why": str(error)}
    except workload.NotPossibleError as error:
        rows[make.__name__] = {"outcome": "not possible", "why": str(error)}
    except HastenError as error:
        rows[make.__name__] = {"outcome": "failed", "why": str(error)}
    else:
        return way
    return None


Times = list[tuple[float, float]]
"""Microseconds per step of each block: the host's, and until the device was done."""


def _run_rounds(
    ways: dict[str, small_steps.Way], arguments: argparse.Namespace
) -> dict[str, Times]:
    order = random.Random(arguments.seed)
    times: dict[str, Times] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name in order.sample(list(ways), len(ways)):
            times[name].append(_time_block(ways[name].step, arguments.steps))
    return times


def _time_block(step: Callable[[], Any], steps: int) -> tuple[float, float]:
    _synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    issued = time.perf_counter()
    _synchronize()
    done = time.perf_counter()
    return 1e6 * (issued - start) / steps, 1e6 * (done - start) / steps


def _synchronize() -> None:
    if workload.on_cuda():
        torch.cuda.synchronize()


def _describe(own: Times, base: Times | None, *, is_base: bool) -> dict[str, Any]:
    host, done = zip(*own, strict=True)
    figures: dict[str, Any] = {
        "host_us": round(statistics.median(host), 2),
        "until_done_us": round(statistics.median(done), 2),
        "block_host_us": [round(each, 2) for each in host],
    }
    if base is not None and not is_base:
        added = difference_interval([each for each, _ in base], host)
        figures["added_us"] = dataclasses.asdict(added)
    return figures


def _print_table(name: str, rows: dict[str, Any]) -> None:
    print(f"\n{name}")
    for way, row in rows.items():
        if row["outcome"] != "measured":
            print(f"  {way:14}{row['outcome']}: {row['why']}")
            continue
        added = row.get("added_us")
        shown = "-" if added is None else f"{added['median']:+} [{added['low']}, {added['high']}]"
        counts = {key: row[key] for key in row if key.endswith(("_per_step", "_added_bytes"))}
        print(f"  {way:14}{row['host_us']:9.2f} us  done {row['until_done_us']:9.2f}  {shown}")
        print(f"    {counts} {row['applied']}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100, help="in a block")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
