"""Does a gate alarm for a tenth more work, and only then? 20 runs with it and 20 without.

Each run is the real command, `hasten bench TASK --against FILE`, on a file that was saved from the
task as it is; for half of them the task's own file is edited to do 10 % more. The figure is saved
anew after every 5 runs of each kind. About 45 minutes on two quiet cores. What was done is kept in
a folder: started again it goes on from there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hasten.tune.bench import bench
from results_file import COMMIT, write_results

TASK = Path(__file__).with_name("gated.py")
AS_IT_IS, MORE_WORK = "BLOCKS = 20", "BLOCKS = 22"
RUNS_PER_SAVE = 5
KINDS = ("planted", "none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each kind, those done included")
    parser.add_argument("--threads", type=int, default=1, help="that torch computes with")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "hasten-against"
    )
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    arguments.folder.mkdir(exist_ok=True)
    runs = _go_on(arguments.folder, arguments.runs)
    kinds = {kind: [each for each in runs if each["kind"] == kind] for kind in KINDS}
    figures = {
        "threads": arguments.threads,
        "planted": _summary(kinds["planted"], right=1),
        "none": _summary(kinds["none"], right=0),
        "planted_slowdown_of_a_step": _measure_planted(arguments.folder),
    }
    print(json.dumps(figures, indent=1))
    write_results("against", {**figures, "runs": runs})


def _go_on(folder: Path, wanted: int) -> list[dict[str, Any]]:
    """Both kinds in turns, each run noted as it ends."""
    journal = folder / "runs.jsonl"
    runs = (
        [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    )
    for number in range(wanted):
        for kind in KINDS:
            if any(each["kind"] == kind and each["number"] == number for each in runs):
                continue
            saved = folder / f"bench-{number // RUNS_PER_SAVE}.json"
            if not saved.exists():
                _save(folder, saved.name)
            ended = _gate(folder, saved.name, kind)
            runs.append({"kind": kind, "number": number, "commit": COMMIT, **ended})
            print(runs[-1], flush=True)
            with journal.open("a") as file:
                file.write(json.dumps(runs[-1]) + "\n")
    return runs


def _save(folder: Path, name: str) -> None:
    _write_task(folder, "none")
    ended = _hasten(folder, "--save", name)
    if ended.returncode:
        raise SystemExit(f"saving failed: {ended.stderr}")
    print(f"saved {name}", flush=True)


def _gate(folder: Path, name: str, kind: str) -> dict[str, Any]:
    _write_task(folder, kind)
    began = time.monotonic()
    ended = _hasten(folder, "--against", name)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"the gate failed: {ended.stderr}")
    report = json.loads(ended.stdout)
    change = report["change"]
    return {
        "exit": ended.returncode,
        "decision": change["decision"],
        "times": round(change["times"], 4),
        "low": round(change["low"], 4),
        "high": round(change["high"], 4),
        "pairs": len(report["pairs"]),
        "seconds": round(time.monotonic() - began, 1),
    }


def _hasten(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hasten", "bench", "train.py:make_task", *arguments, "--json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _write_task(folder: Path, kind: str) -> None:
    text = TASK.read_text()
    assert AS_IT_IS in text
    edited = text.replace(AS_IT_IS, MORE_WORK) if kind == "planted" else text
    (folder / "train.py").write_text(edited)


def _measure_planted(folder: Path) -> dict[str, float]:
    """Of the edited file beside the file as it is, in turns: what 10 % more blocks come to."""
    _write_task(folder, "planted")
    edited = f"{folder / 'train.py'}:make_task"
    report = bench(f"{TASK}:make_task", "naive", edited, seed=0, tell=lambda message: None)
    if report.speed is None:
        raise SystemExit(f"a pair failed: {report.confirmation.failure}")
    speed = report.speed
    return {"times": 1 / speed.ratio, "low": 1 / speed.high, "high": 1 / speed.low}


def _summary(runs: list[dict[str, Any]], right: int) -> dict[str, Any]:
    return {
        "runs": len(runs),
        "errors": sum(each["exit"] != right for each in runs),
        "no_verdict": sum(each["decision"] == "undecided" for each in runs),
        "slowest_s": max((each["seconds"] for each in runs), default=0.0),
    }


if __name__ == "__main__":
    main()
