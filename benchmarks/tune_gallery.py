"""Tune a bundled workload and keep the figures: what was claimed, what was tried, how long it took.

The cards are printed as `hasten tune` prints them. On a machine without the repository's history,
name the commit with --commit.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from hasten.cli.options import print_rich
from hasten.flow import tune
from hasten.records.recipe import Evidence
from hasten.report.card import tune_card
from results_file import write_results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="gallery:bloom")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        evidence = tune(arguments.task, out=Path(folder), tell=lambda line: print(line, flush=True))
    print_rich(tune_card(evidence, "hasten-out"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = arguments.task.removeprefix("gallery:").replace("@", "-")
    write_results(f"tune-{name}-{device}", _figures(evidence), commit=arguments.commit)


def _figures(evidence: Evidence) -> dict[str, Any]:
    speed = evidence.speed
    return {
        "task": evidence.task,
        "outcome": evidence.outcome,
        "verdict": evidence.verdict,
        "why": evidence.why,
        "plan": evidence.plan.parts,
        "speed": {
            "ratio": round(speed.ratio, 3),
            "low": round(speed.low, 3),
            "high": round(speed.high, 3),
            "noise_floor": round(speed.noise_floor, 3),
            "naive_rows_per_s": round(speed.a_rows_per_s),
            "tuned_rows_per_s": round(speed.b_rows_per_s),
        }
        if speed
        else None,
        "numerics": [
            f"{each.name}: {each.verdict}, {each.why}" for each in evidence.numerics.checks
        ]
        if evidence.numerics
        else None,
        "trials": [
            {
                "technique": trial.candidate.technique,
                "outcome": trial.outcome,
                "why": trial.why,
                "ratio": round(trial.comparison.ratio, 3) if trial.comparison else None,
            }
            for trial in evidence.trials
        ],
        "elapsed_s": round(evidence.spent.total_s(), 1),
    }


if __name__ == "__main__":
    main()
