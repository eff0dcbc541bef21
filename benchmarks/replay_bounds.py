"""Is what a perfect loader could give predicted by replaying kept batches?

A training's loader is slowed by a known amount of computing, in the loop itself or in 2 workers.
*Predicted* is the bound that a worker process measures of it. *True* is how many times faster the
same training is with a loader that only slices, both in processes of their own that take turns in
random order, as ``hasten bench`` does it. Bar: within 10 %.

*Steady* asks whether a block of steps, as it is timed between those of another arm, is as fast as
the same loader goes on its own: steps of blocks with pauses against steps of one long run. Without
using up what workers had prefetched a block would look faster. Bar: within 5 %.
"""

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import replay_tasks
from arms import workload
from hasten.measure import messages
from hasten.measure.compare import Arm, compare
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from results_file import RESULTS, write_results

TASKS = Path(__file__).with_name("replay_tasks.py")
PREDICTION_BAR, STEADY_BAR = 0.10, 0.05
LONG_STEPS, BLOCK_STEPS, BLOCKS = 200, 10, 30


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
    predicted = _predicted(task, arguments.seed)
    with Lab(f"{TASKS}:{task}", arguments.seed) as lab:
        (slow,) = lab.arms(NAIVE)
        with Lab(f"{TASKS}:fast", arguments.seed) as other:
            (fast,) = other.arms(NAIVE)
            truth = compare(slow, fast, seed=arguments.seed)
        steady = _steady(slow)
    error = predicted["ratio"] / truth.ratio - 1
    return {
        "task": task,
        "slowed_ms": slowed_ms,
        "predicted": predicted,
        "true": {"ratio": truth.ratio, "low": truth.low, "high": truth.high},
        "error": error,
        "within_bar": abs(error) < PREDICTION_BAR,
        "block_against_steady": steady,
        "steady_within_bar": abs(steady - 1) < STEADY_BAR,
    }


def _predicted(task: str, seed: int) -> dict[str, float]:
    with Lab(f"{TASKS}:{task}", seed) as lab:
        (arm,) = lab.arms(NAIVE)
        found = arm.worker.ask(messages.MeasureBounds(), messages.BoundsMeasured)
    bound = next(each for each in found.bounds if each.without == "loader")
    return {"ratio": bound.ratio, "low": bound.low, "high": bound.high}


def _steady(arm: Arm) -> float:
    """Seconds per row of short blocks with pauses, against those of long runs before and after."""
    long = [_per_row(arm, LONG_STEPS)]
    blocks = []
    for _ in range(BLOCKS):
        blocks.append(_per_row(arm, BLOCK_STEPS))
        arm.worker.pause()
    long.append(_per_row(arm, LONG_STEPS))
    return statistics.median(blocks) / statistics.mean(long)


def _per_row(arm: Arm, steps: int) -> float:
    block = arm.worker.ask(messages.TimeBlock(steps=steps), messages.Block)
    return block.elapsed_s / block.rows


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--slowed-ms", default="5,20,60", help="per batch, comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
