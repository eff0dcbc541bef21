"""Do the phases of a step disturb it, and do they add up to it?

For each workload of the gallery one process alternates blocks of plain steps with blocks of steps
whose phases are marked, in random order within each round. *Overhead* is what a marked block takes
more than a plain one, both by the clock; *sum* is what the phases of the marked steps add up to,
against the plain block beside it. Both are medians over rounds with their intervals. Bars: an
overhead below 3 %, a sum within 5 %.
"""

import argparse
import dataclasses
import random
import statistics
import time
from pathlib import Path
from typing import Any

from arms import workload
from hasten.measure.blocks import timed_steps, warm
from hasten.measure.marks import marks_for, wait_for
from hasten.measure.phases import MARKS, mark_steps, phases_of
from hasten.records.measurement import Phases
from hasten.runtime.run import Run
from hasten.stats.paired import MINIMUM_ROUNDS, ratio_interval
from hasten.task.load import build_task, load_factory
from hasten.task.pipeline import Pipeline
from results_file import RESULTS, write_results

WORKLOADS = ("bloom", "battery", "lensing", "microbiome", "gpt")
BLOCK_S = 0.01
OVERHEAD_BAR, SUM_BAR = 0.03, 0.05


def main() -> None:
    arguments = _parse()
    workload.choose_device(arguments.device)
    figures: dict[str, Any] = {
        "size": arguments.size,
        "bars": {"overhead": OVERHEAD_BAR, "sum": SUM_BAR},
        "workloads": {},
    }
    for name in arguments.workloads.split(","):
        row = measure(f"gallery:{name}@{arguments.size}", arguments)
        figures["workloads"][name] = row
        print(f"{name:12}{row}", flush=True)
        write_results(
            f"profile-phases-{arguments.size}-{arguments.device}",
            figures,
            commit=arguments.commit,
            folder=arguments.out,
        )


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    run = Run(Pipeline.from_task(build_task(load_factory(name), name, arguments.seed)))
    source = run.endless()
    timed_steps(run, source, 3)
    step_s = warm(run, source, 8)
    steps = max(2, round(BLOCK_S / step_s))
    order = random.Random(arguments.seed)
    plain, marked, added_up, phases = [], [], [], []
    began = time.monotonic()
    while time.monotonic() - began < arguments.seconds or len(plain) < MINIMUM_ROUNDS:
        for kind in order.sample(("plain", "marked"), 2):
            if kind == "plain":
                plain.append(timed_steps(run, source, steps)[0])
                continue
            elapsed, found = _marked_block(run, source, steps)
            marked.append(elapsed)
            added_up.append(sum(each.total_s() for each in found))
            phases += found
    took_s = time.monotonic() - began
    overhead = ratio_interval(marked, plain, elapsed_s=took_s)
    total = ratio_interval(added_up, plain, elapsed_s=took_s)
    return {
        "steps_per_block": steps,
        "rounds": len(plain),
        "step_us": round(1e6 * statistics.median(plain) / steps, 1),
        "phases_us": _typical(phases),
        "overhead": dataclasses.asdict(overhead),
        "sum": dataclasses.asdict(total),
        "overhead_within_bar": overhead.ratio - 1 < OVERHEAD_BAR,
        "sum_within_bar": abs(total.ratio - 1) < SUM_BAR,
    }


def _marked_block(run: Run, source: Any, steps: int) -> tuple[float, tuple[Phases, ...]]:
    device = run.pipeline.device
    marks = marks_for(device, expected=MARKS * steps + 1)
    start = time.perf_counter()
    marked = mark_steps(run, source, steps, marks)
    wait_for(device)
    elapsed = time.perf_counter() - start
    return elapsed, phases_of(marked.names, marks.spans())


def _typical(phases: list[Phases]) -> dict[str, float]:
    names = Phases.__struct_fields__
    return {
        name: round(1e6 * statistics.median(getattr(each, name) for each in phases), 1)
        for name in names
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=20.0, help="for each workload")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
