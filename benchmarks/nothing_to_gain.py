"""Tune trainings that are as fast as they can be, and count what is claimed of them all the same.

Each of ``optimal_tasks.py`` is tuned by the real command in a process of its own. Where a recipe
comes out, what it claims is measured again by ``remeasured.py``: a claim that is not there then, is
a false win. One that is there, is no fault of the tuner: the task was not as fast as it could be.
The C library is told to keep its memory, as whoever wants the most of a CPU does, so that
kept_memory is not tried; and oneDNN to do without 16-bit instructions, by which the same trainings
are 2.7 to 3.1 times as fast where a CPU has them, so that bf16 is not tried either.

Bar: "nothing to gain" of at least 19 in 20, and no false win. The file is written after each task;
``--go-on FILE`` leaves out those that stand in FILE.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from optimal_tasks import TASKS
from results_file import write_results
from tune_gallery import claimed, tune

FILE = Path(__file__).with_name("optimal_tasks.py")
NEEDED = 19 / 20
SETTINGS = {
    "MALLOC_TRIM_THRESHOLD_": "1099511627776",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
REAL = 1.01
"""As many times faster, measured again, is a gain: the least that is ever claimed."""


def main() -> None:
    arguments = _parse()
    os.environ.update(SETTINGS)
    rows: list[dict[str, Any]] = []
    if arguments.go_on is not None:
        rows = json.loads(arguments.go_on.read_text())["tasks"]
    done = {row["name"] for row in rows}
    for name in arguments.task:
        if name in done:
            continue
        rows.append(_row(name, arguments.minutes, arguments.pairs))
        figures = {"minutes": arguments.minutes, **_counts(rows), "tasks": rows}
        write_results("nothing-to-gain", figures, commit=arguments.commit)
    missed = _missed_bar(_counts(rows))
    if missed is not None:
        sys.exit(missed)


def _row(name: str, minutes: float, pairs: int) -> dict[str, Any]:
    task = f"{FILE}:{name}"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "hasten-out")
        tune(task, out, minutes)
        evidence, figures = claimed(task, out, pairs)
    again = figures["again"]
    return {
        "name": name,
        **figures,
        "step_ms": round(1e3 * evidence.diagnosed[0].measurement.step_s(), 2),
        "is_false_win": again is not None and again["ratio"] < REAL,
    }


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {
        "tuned": len(rows),
        "nothing_to_gain": sum(row["outcome"] == "nothing_to_gain" for row in rows),
        "recipes": sum(row["outcome"] == "recipe" for row in rows),
        "false_wins": sum(row["is_false_win"] for row in rows),
        "trials_timed": sum(bool(t["ratio"]) for row in rows for t in row["trials"]),
    }


def _missed_bar(counts: dict[str, int]) -> str | None:
    if counts["false_wins"]:
        return f"{counts['false_wins']} false wins"
    if counts["nothing_to_gain"] < NEEDED * counts["tuned"]:
        return f"nothing to gain in {counts['nothing_to_gain']} of {counts['tuned']} only"
    return None


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [each.__name__ for each in TASKS]
    parser.add_argument("task", nargs="*", default=names, help="of optimal_tasks.py")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each search")
    parser.add_argument("--pairs", type=int, default=6, help="of fresh processes, for each recipe")
    parser.add_argument("--go-on", type=Path, metavar="FILE", help="results of a stopped run")
    parser.add_argument("--commit", default="", help="where there is no history to ask")
    return parser.parse_args()


if __name__ == "__main__":
    main()
