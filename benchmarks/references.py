"""Which piece of work is the steadiest to tell a task's speed in? Its ratio, in pair after pair.

Two tasks beside two references: one that computes much for each byte, and one that reads and writes
8 MB of weights and of optimizer state for a small batch. The figure is the spread (standard
deviation) of the log of the ratio over pairs of fresh processes: what a gate has to see through.
"""

import argparse
import json
import math
import os
import statistics
from pathlib import Path

import torch
from torch import nn

import hasten
from hasten.measure import reference
from hasten.measure.gauge import gauge
from hasten.measure.lab import Lab, Subject
from hasten.records.plan import NAIVE
from results_file import write_results

HERE = Path(__file__)
TASKS = {
    "much_arithmetic": f"{HERE.with_name('gated.py')}:make_task",
    "through_memory": f"{HERE}:reads_much",
}
REFERENCES = {
    "present": Subject(f"{reference.__file__}:make_task"),
    "through_memory": Subject(f"{HERE}:reads_much"),
}


def reads_much() -> hasten.Task:
    width, rows = 512, 64
    layers = (nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return hasten.Task(
        model=nn.Sequential(*layers, nn.Linear(width, 64)),
        data=(torch.randn(16 * rows, width), torch.randint(0, 64, (16 * rows,))),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6, help="of each task with each reference")
    parser.add_argument("--threads", type=int, default=1, help="that torch computes with")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    ratios: dict[str, list[float]] = {}
    for number in range(arguments.pairs):  # in turns: a machine's hour is another one's
        for task, path in TASKS.items():
            for name, other in REFERENCES.items():
                with Lab(path, seed=0) as lab:
                    pair = gauge(*lab.arms(other, NAIVE), seed=number)
                ratios.setdefault(f"{task} beside {name}", []).append(pair.ratio)
    figures = {
        name: {"spread": _spread(each), "ratios": [round(ratio, 5) for ratio in each]}
        for name, each in ratios.items()
    }
    print(json.dumps(figures, indent=1))
    write_results("references", {"threads": arguments.threads, **figures})


def _spread(ratios: list[float]) -> float:
    return round(statistics.stdev(math.log(each) for each in ratios), 4)


if __name__ == "__main__":
    main()
