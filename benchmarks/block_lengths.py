"""How long should a block be, before the other arm has its turn?

Two identical arms take turns for 4 s at a time, in blocks of one length, then of another, in random
order, again and again. What the median ratio of 4 s comes to spreads from time to time: the less,
the fewer seconds a comparison needs. *Spread* is its standard deviation; *expected* is what the
bootstrap of each 4 s by itself says it should be, which is too little where a machine's speed
wanders more slowly than the blocks take turns.
"""

import argparse
import math
import random
import statistics
from pathlib import Path
from typing import Any

from hasten.measure.compare import Arm, Rounds
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.records.verdict import Comparison
from hasten.stats.paired import MARGIN, MINIMUM_ROUNDS
from results_file import RESULTS, write_results

CHUNK_S = 4.0
ONE_SIGMA = 0.6827


def main() -> None:
    arguments = _parse()
    lengths = [float(each) for each in arguments.lengths_ms.split(",")]
    order = random.Random(arguments.seed)
    chunks: dict[float, list[Comparison]] = {each: [] for each in lengths}
    with Lab(arguments.task, arguments.seed) as lab:
        a, b = lab.arms(NAIVE, NAIVE)
        for number in range(arguments.chunks):
            for length in order.sample(lengths, len(lengths)):
                chunks[length].append(_take(a, b, length / 1e3, number))
    figures = {
        "task": arguments.task,
        "step_ms": round(1e3 * a.step_s, 2),
        "chunks": arguments.chunks,
        "lengths_ms": {f"{length:g}": _summary(taken) for length, taken in chunks.items()},
    }
    for length, row in figures["lengths_ms"].items():
        print(f"{length:>5} ms  {row}")
    write_results("block-lengths", figures, folder=arguments.out)


def _take(a: Arm, b: Arm, length_s: float, seed: int) -> Comparison:
    rounds = Rounds(a, b, steps=(max(1, round(length_s / a.step_s)),) * 2, seed=seed)
    rounds.take_for(CHUNK_S, at_least=MINIMUM_ROUNDS)
    return rounds.end(rounds.interval(ONE_SIGMA), ONE_SIGMA, MARGIN)


def _summary(taken: list[Comparison]) -> dict[str, Any]:
    logs = [math.log(each.ratio) for each in taken]
    expected = [math.log(each.high / each.low) / 2 for each in taken]
    return {
        "rounds_in_4_s": statistics.median(len(each.rounds) for each in taken),
        "spread": round(statistics.stdev(logs), 4),
        "expected": round(statistics.median(expected), 4),
        "mean": round(statistics.fmean(logs), 4),
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="gallery:bloom")
    parser.add_argument("--lengths-ms", default="10,20,60")
    parser.add_argument("--chunks", type=int, default=24, help="of 4 s, for each length")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
