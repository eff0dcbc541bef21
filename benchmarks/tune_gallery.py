"""Tune bundled workloads, and measure again what was claimed.

Each task is tuned by the real command in a process of its own. Then what its recipe claims is
measured in another way, by ``remeasured.py``: plain loops over whole steps in fresh processes that
take turns of a second. A claim is a miss where the mean of these ratios lies outside of its
interval. ``--again`` tunes nothing, and measures what a run with ``--keep`` has claimed.

Bars, of each task: tuned within 5 minutes; what is recommended is not slower than naive.
"""

import argparse
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from hasten.records.recipe import Evidence
from hasten.records.record import from_json
from remeasured import remeasure
from results_file import RESULTS, write_results

TASKS = [f"gallery:{name}" for name in ("bloom", "battery", "lensing", "microbiome", "gpt")]
LIMIT_S = 300.0


def main() -> None:
    arguments = _parse()
    rows = []
    for task in arguments.task:
        with _folder(task, arguments.again or arguments.keep) as folder:
            if arguments.again is None:
                tune(task, Path(folder), arguments.minutes)
            rows.append(_row(task, Path(folder), arguments.pairs))
        figures = {"minutes": arguments.minutes, "tasks": rows, "misses": _misses(rows)}
        write_results(
            f"tune-gallery-{_device()}", figures, commit=arguments.commit, folder=arguments.out
        )
    slow = [row["task"] for row in rows if row["took_s"] > LIMIT_S or row["is_slower"]]
    if slow:
        sys.exit(f"too slow to tune, or slower than naive: {', '.join(slow)}")


def _folder(task: str, keep: Path | None) -> AbstractContextManager[Path | str]:
    if keep is None:
        return tempfile.TemporaryDirectory()
    return nullcontext(keep / task.rpartition(":")[2])


def _row(task: str, out: Path, pairs: int) -> dict[str, Any]:
    evidence, figures = claimed(task, out, pairs)
    speed, again = evidence.speed, figures["again"]
    inside = speed is None or again is None or speed.low <= again["ratio"] <= speed.high
    return {
        **figures,
        "inside_its_interval": inside,
        "is_slower": again is not None and again["ratio"] < 1,
    }


def tune(task: str, out: Path, minutes: float) -> None:
    """By the real command."""
    command = [sys.executable, "-m", "hasten", "tune", task, "--minutes", str(minutes)]
    subprocess.run([*command, "--out", str(out)], check=False)


def claimed(task: str, out: Path, pairs: int) -> tuple[Evidence, dict[str, Any]]:
    """What a tuning came to; what it recommends is measured again, where there are to be pairs."""
    evidence = from_json((out / "evidence.json").read_bytes(), Evidence, where=str(out))
    again = None
    if evidence.outcome == "recipe" and pairs:
        again = remeasure(task, out / "recipe.toml", pairs)
    return evidence, {**_figures(evidence), "again": again}


def _misses(rows: list[dict[str, Any]]) -> str:
    claims = [row for row in rows if row["again"]]
    return f"{sum(not row['inside_its_interval'] for row in claims)} of {len(claims)}"


def _figures(evidence: Evidence) -> dict[str, Any]:
    speed, spent = evidence.speed, evidence.spent
    return {
        "task": evidence.task,
        "outcome": evidence.outcome,
        "verdict": evidence.verdict,
        "why": evidence.why,
        "plan": evidence.plan.parts,
        "dropped": evidence.dropped,
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
                "on": str(trial.on),
                "outcome": trial.outcome,
                "why": trial.why,
                "ratio": round(trial.comparison.ratio, 3) if trial.comparison else None,
            }
            for trial in evidence.trials
        ],
        "worth": {each.technique: round(each.ratio, 3) for each in evidence.worth},
        "took_s": round(spent.total_s(), 1),
        "spent_s": {name: round(getattr(spent, name), 1) for name in spent.__struct_fields__},
    }


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", nargs="*", default=TASKS)
    parser.add_argument("--minutes", type=float, default=2.0, help="for each search")
    parser.add_argument("--pairs", type=int, default=15, help="of fresh processes, for each claim")
    parser.add_argument("--again", type=Path, metavar="KEPT", help="tune nothing")
    parser.add_argument("--keep", type=Path, help="a folder for what tune writes, by task")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="", help="where there is no history to ask")
    return parser.parse_args()


if __name__ == "__main__":
    main()
