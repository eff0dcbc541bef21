"""Do the gallery's plain scripts learn, at their small size on a CPU, and how long do they take?

Each is run once as a program, as its page says, with its own settings and the threads that torch
takes here; the time is that of the whole program, from its start to its end. Bars: under 60 s, and
a metric that beats chance by the margin that the workload states. Exit 1 where one is missed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hasten.gallery.catalogue import read_catalogue
from hasten.records.gallery import Workload
from results_file import RESULTS, write_results

LIMIT_S = 60
PATIENCE_S = 600
"""A script that is too slow is to be told by how much."""
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?")


def main() -> int:
    arguments = _parse()
    workloads = {each.name: each for each in read_catalogue().workloads}
    figures: dict[str, Any] = {"limit_s": LIMIT_S, "scripts": {}}
    for name in arguments.workloads or workloads:
        figures["scripts"][name] = row = run_script(workloads[name])
        print(f"{name:12}{row}", flush=True)
    write_results("naive-scripts", figures, commit=arguments.commit, folder=arguments.out)
    return int(not all(row["passed"] for row in figures["scripts"].values()))


def run_script(workload: Workload) -> dict[str, Any]:
    command = [sys.executable, "-m", f"hasten.gallery.{workload.name}.naive"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    start = time.perf_counter()
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    seconds = time.perf_counter() - start
    metric = last_number(ended.stdout)
    gain = metric - workload.chance if workload.higher_is_better else workload.chance - metric
    return {
        "seconds": round(seconds, 1),
        "metric": metric,
        "chance": workload.chance,
        "margin": workload.margin,
        "passed": seconds < LIMIT_S and gain >= workload.margin,
    }


def last_number(text: str) -> float:
    """The one number of the last line, which is the metric."""
    lines = text.splitlines() or [""]
    found = NUMBER.findall(lines[-1])
    if len(found) != 1:
        raise SystemExit(f"The last line of a script is to have one number: {lines[-1]!r}")
    return float(found[0])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
