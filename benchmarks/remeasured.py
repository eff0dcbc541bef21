"""How many times faster is a recipe than the naive training? By a plain loop, and nothing else.

Each process builds the task, takes steps until it is warm, then takes steps for some seconds and
divides rows by the clock. Processes follow each other in the order naive, tuned, tuned, naive, so
that a machine that slows down evenly favours neither; the ratio is the median over the pairs.
None of what tune measures with is used.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WARM_S, SECONDS = 2.0, 4.0


def remeasure(task: str, recipe: Path, pairs: int) -> dict[str, Any]:
    ratios = []
    for number in range(pairs):
        order = ("", str(recipe)) if number % 2 == 0 else (str(recipe), "")
        rates = {each: _in_fresh_process(task, each) for each in order}
        ratios.append(rates[str(recipe)] / rates[""])
    return {
        "ratio": round(statistics.median(ratios), 3),
        "smallest": round(min(ratios), 3),
        "largest": round(max(ratios), 3),
        "pairs": pairs,
    }


def _in_fresh_process(task: str, recipe: str) -> float:
    command = [sys.executable, __file__, task, "--recipe", recipe]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(ended.stdout)["rows_per_s"])


def rows_per_s(task: str, recipe: str) -> float:
    import torch

    from hasten.records.plan import NAIVE
    from hasten.records.recipe import read_recipe
    from hasten.runtime.run import Run
    from hasten.task import batch as batches
    from hasten.task.load import build_task, load_factory
    from hasten.task.pipeline import Pipeline

    plan = read_recipe(Path(recipe)).as_plan() if recipe else NAIVE
    run = Run(Pipeline.from_task(build_task(load_factory(task), task, seed=0)), plan)
    steps = run.endless()

    def train(seconds: float) -> float:
        rows, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            batch = next(steps)
            rows += batches.rows_in(batch)
            run.step(batch)
        if run.pipeline.device.type == "cuda":
            torch.cuda.synchronize()
        return rows / (time.perf_counter() - began)

    train(WARM_S)
    return train(SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--recipe", default="", help="none for the naive training")
    arguments = parser.parse_args()
    print(json.dumps({"rows_per_s": rows_per_s(arguments.task, arguments.recipe)}))


if __name__ == "__main__":
    main()
