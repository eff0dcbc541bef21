"""Do processes of one training differ by what the kernel does for them?

    python benchmarks/page_faults.py gallery:bloom fused_optimizer [--processes 10]

Fresh processes take turns: of the naive training and of one plan for each technique that is named,
without kept_memory and with it. Of each, once it is warm: rows and page faults of a second.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from hasten.host.kernel import kernel_work
from results_file import write_results

WARM_S, TIMED_S = 2.0, 2.0


def main() -> None:
    arguments = _parse()
    if arguments.plan is not None:
        print(json.dumps(train(arguments.task, arguments.plan.split("+"))))
        return
    plans = ["", "kept_memory", *arguments.technique]
    plans += [f"{each}+kept_memory" for each in arguments.technique]
    rows: dict[str, list[dict[str, float]]] = {each or "naive": [] for each in plans}
    for _ in range(arguments.processes):
        for plan in plans:
            command = [sys.executable, __file__, arguments.task, "--plan", plan]
            told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
            rows[plan or "naive"].append(json.loads(told))
    figures = {name: _summary(processes) for name, processes in rows.items()}
    for name, row in figures.items():
        print(name, row)
    write_results("page-faults", {"task": arguments.task, "plans": figures})


def train(task: str, parts: list[str]) -> dict[str, float]:
    from hasten.records.plan import Plan
    from hasten.runtime.run import Run
    from hasten.task import batch as batches
    from hasten.task.load import build_task, load_factory
    from hasten.task.pipeline import Pipeline

    plan = Plan(parts={each: {} for each in parts if each})
    run = Run(Pipeline.from_task(build_task(load_factory(task), task, seed=0)), plan)
    steps = run.endless()
    for seconds in (WARM_S, TIMED_S):
        before, began, rows = kernel_work(), time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            batch = next(steps)
            rows += batches.rows_in(batch)
            run.step(batch)
        elapsed = time.perf_counter() - began
    after = kernel_work()
    return {
        "rows_per_s": round(rows / elapsed),
        "faults_per_s": round((after.faults - before.faults) / elapsed),
        "kernel_share": round((after.seconds - before.seconds) / elapsed, 3),
    }


def _summary(processes: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "median_rows_per_s": statistics.median(each["rows_per_s"] for each in processes),
        "processes": sorted(processes, key=lambda each: each["faults_per_s"]),
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task")
    parser.add_argument("technique", nargs="*")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
