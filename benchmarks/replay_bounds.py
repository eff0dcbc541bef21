"""Is what a perfect loader could give predicted by replaying kept batches?

A training's loader is slowed by a known amount of computing, in the loop itself or in 2 workers.
*Predicted* is the bound that a worker process measures of it. *True* is how many times faster the
same training is with a loader that only slices, both in processes of their own that take turns in
random order, as ``hasten bench`` does it, for 20 s. In several turns, each in fresh processes.
Bar: within 10 % in the median.

*Steady* asks whether a block of steps, as it is timed between those of another arm, is as fast as
the same loader goes on its own: steps of blocks with pauses against steps of long runs between
them. Without using up what workers had prefetched a block would look faster. Bar: within 5 % in the
median.
"""

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import replay_tasks
from arms import workload
from hasten.measure import messages
from hasten.measure.compare import Arm, Rounds, block_steps
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.stats.paired import CONFIDENCE, MINIMUM_ROUNDS
from results_file import RESULTS, write_results

TASKS = Path(__file__).with_name("replay_tasks.py")
PREDICTION_BAR, STEADY_BAR = 0.10, 0.05
TRUTH_S = 20.0
LONG_RUNS, LONG_STEPS, BLOCK_STEPS, BLOCKS = 3, 100, 10, 10


def main() -> None:
    arguments = _parse()
    workload.choose_device(arguments.device)
    figures: dict[str, Any] = {
        "bars": {"prediction": PREDICTION_BAR, "steady": STEADY_BAR},
        "rows": [],
    }
    for task in ("slowed", "slowed_with_workers"):
        for slowed in arguments.slowed_ms.split(","):
            figures["rows"].append(measure(task, float(slowed), arguments))
            print(figures["rows"][-1], flush=True)
            write_results(
                f"replay-bounds-{arguments.device}",
                figures,
                commit=arguments.commit,
                folder=arguments.out,
            )


def measure(task: str, slowed_ms: float, arguments: argparse.Namespace) -> dict[str, Any]:
    os.environ[replay_tasks.VARIABLE] = str(slowed_ms)
    turns = [_turn(task, arguments.seed + number) for number in range(arguments.turns)]
    errors = [turn["predicted"] / turn["true"] - 1 for turn in turns]
    steady = [turn["block_against_steady"] - 1 for turn in turns]
    return {
        "task": task,
        "slowed_ms": slowed_ms,
        "error": _middle_and_worst(errors),
        "within_bar": abs(statistics.median(errors)) < PREDICTION_BAR,
        "block_against_steady": _middle_and_worst(steady),
        "steady_within_bar": abs(statistics.median(steady)) < STEADY_BAR,
        "turns": turns,
    }


def _middle_and_worst(errors: list[float]) -> dict[str, float]:
    return {"median": statistics.median(errors), "worst": max(errors, key=abs)}


def _turn(task: str, seed: int) -> dict[str, float]:
    predicted = _predicted(task, seed)
    with Lab(f"{TASKS}:{task}", seed) as lab, Lab(f"{TASKS}:fast", seed) as other:
        (slow,), (fast,) = lab.arms(NAIVE), other.arms(NAIVE)
        steps = block_steps(slow), block_steps(fast)
        rounds = Rounds(slow, fast, steps=steps, seed=seed)
        rounds.take_for(TRUTH_S, at_least=MINIMUM_ROUNDS)
        truth = rounds.interval(CONFIDENCE)
        steady = _steady(slow)
    return {"predicted": predicted, "true": truth.ratio, "block_against_steady": steady}


def _predicted(task: str, seed: int) -> float:
    with Lab(f"{TASKS}:{task}", seed) as lab:
        (arm,) = lab.arms(NAIVE)
        found = arm.worker.ask(messages.MeasureBounds(), messages.BoundsMeasured)
    return next(each.ratio for each in found.bounds if each.without == "loader")


def _steady(arm: Arm) -> float:
    """Seconds per row of short blocks with pauses, against those of long runs, in turns."""
    long, blocks = [], []
    for _ in range(LONG_RUNS):
        long.append(_per_row(arm, LONG_STEPS))
        for _ in range(BLOCKS):
            blocks.append(_per_row(arm, BLOCK_STEPS))
            arm.worker.pause()
    return statistics.mean(blocks) / statistics.mean(long)


def _per_row(arm: Arm, steps: int) -> float:
    block = arm.worker.ask(messages.TimeBlock(steps=steps), messages.Block)
    return block.elapsed_s / block.rows


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--slowed-ms", default="5,20,60", help="per batch, comma-separated")
    parser.add_argument("--turns", type=int, default=3, help="of each, in fresh processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
