"""Ten thousand steps by ``hasten train``: does its memory grow, and how large is its log?

The command runs in a process of its own, with its output in a file. Its resident memory, and that
of its children, is read several times a second, and shown as the median of each tenth of the run.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from hasten.records.training import TrainingSummary
from results_file import RESULTS, write_results

INTERVAL_S = 0.2


def main() -> None:
    arguments = _parse()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments, Path(folder))
    for name, value in figures.items():
        print(f"{name:24}{value}")
    write_results("long-training", figures, commit=arguments.commit, folder=arguments.out)


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    run = folder / "run"
    command = [sys.executable, "-m", "hasten", "train", arguments.task, "--json"]
    command += ["--steps", str(arguments.steps), "--checkpoint-dir", str(run)]
    command += ["--checkpoint-every", str(arguments.steps // 20)]
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        samples = _watch(process, run / "events.jsonl")
    summary = msgspec.json.decode((folder / "stdout").read_bytes(), type=TrainingSummary)
    lines = (run / "events.jsonl").read_bytes().splitlines()
    return {
        "task": arguments.task,
        "exit_code": process.returncode,
        "steps": summary.step,
        "rows_per_s": round(summary.rows_per_s),
        "elapsed_s": round(summary.elapsed_s, 1),
        "memory_samples": len(samples),
        "memory_mib_by_tenth": [_mib(statistics.median(each)) for each in _tenths(samples)],
        "log_bytes": sum(len(line) + 1 for line in lines),
        "log_lines": len(lines),
        "screen_bytes": (folder / "stderr").stat().st_size,
        "checkpoints_kept": len(list(run.glob("step-*"))),
    }


def _watch(process: subprocess.Popen[bytes], log: Path) -> list[int]:
    """Bytes, from the first event on: what comes before is importing and building."""
    samples = []
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        if log.exists() and log.stat().st_size:
            try:
                family = [watched, *watched.children(recursive=True)]
                samples.append(sum(each.memory_info().rss for each in family))
            except psutil.NoSuchProcess:
                pass  # one of them has just ended
        time.sleep(INTERVAL_S)
    return samples


def _tenths(samples: list[int]) -> list[list[int]]:
    size = max(len(samples) // 10, 1)
    return [samples[start : start + size] for start in range(0, 10 * size, size)]


def _mib(count: float) -> float:
    return round(count / 2**20, 1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gallery:bloom")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", help="where this is no clone of the repository")
    return parser.parse_args()


if __name__ == "__main__":
    main()
