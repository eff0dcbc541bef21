"""How many times faster is a recipe than the naive training? By a plain loop, and nothing else.

Two fresh processes, one for each side, build the task and take steps until they are warm. Then they
take turns of a second: rows divided by the clock. The ratio of a pair is the median over its turns,
and the figure the geometric mean over the pairs. None of what tune measures with is used.

A process keeps a heap that gives memory back in each step, or one that does not: one pair of
``gallery:bloom`` kept to 2.06 to 2.34 for three minutes, and of 14 pairs four came to 1.44 to 1.56
and ten to 1.97 to 2.24. So a handful of pairs says little, and their median is that of the heaps
that happen more often.
"""

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

WARM_S, TURN_S, TURNS = 2.0, 1.0, 4


def remeasure(task: str, recipe: Path, pairs: int) -> dict[str, Any]:
    ratios = [_ratio(task, str(recipe), odd=number % 2 == 1) for number in range(pairs)]
    return {
        "ratio": round(statistics.geometric_mean(ratios), 3),
        "pairs": [round(each, 3) for each in ratios],
    }


def _ratio(task: str, recipe: str, *, odd: bool) -> float:
    with ExitStack() as ended:
        sides = [ended.enter_context(_Side(task, each)) for each in ("", recipe)]
        for side in sides:
            side.rows_per_s()  # warm
        ratios = []
        for turn in range(TURNS):
            order = (0, 1) if (turn % 2 == 0) != odd else (1, 0)
            rates = {side: sides[side].rows_per_s() for side in order}
            ratios.append(rates[1] / rates[0])
    return statistics.median(ratios)


class _Side:
    """A process that trains when it is asked to, and waits else."""

    def __init__(self, task: str, recipe: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, task, "--recipe", recipe],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "_Side":
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()  # the end of its input ends it

    def rows_per_s(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("go", file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def train_when_asked(task: str, recipe: str) -> None:
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

    seconds = WARM_S
    for _ in sys.stdin:
        print(train(seconds), flush=True)
        seconds = TURN_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--recipe", default="", help="none for the naive training")
    arguments = parser.parse_args()
    train_when_asked(arguments.task, arguments.recipe)


if __name__ == "__main__":
    main()
