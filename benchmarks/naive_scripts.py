"""Do the gallery's plain scripts learn, at their small size on a CPU, and how long do they take?

Each is run once as a program, as its page says, with its own settings and the threads that torch
takes here; the time is that of the whole program, from its start to its end. Bars: under 60 s, and
a metric that beats chance by the margin that the workload states. Exit 1 where one is missed: a
script that fails or does not end is a row too, with why.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hasten.gallery.catalogue import read_catalogue
from hasten.records.gallery import Workload
from results_file import RESULTS, write_results

LIMIT_S = 60
PATIENCE_S = 600
"""A script that is too slow is to be told by how much."""


def main() -> int:
    workloads = {each.name: each for each in read_catalogue().workloads}
    arguments = parse(script_parser(__doc__), workloads)
    figures: dict[str, Any] = {"limit_s": LIMIT_S, "scripts": {}}
    for name in arguments.workloads:
        figures["scripts"][name] = row = run_script(workloads[name])
        print(f"{name:12}{row}", flush=True)
    write_results("naive-scripts", figures, commit=arguments.commit, folder=arguments.out)
    return int(not all(row["passed"] for row in figures["scripts"].values()))


def run_script(workload: Workload) -> dict[str, Any]:
    ran = run_program(["-m", f"hasten.gallery.{workload.name}.naive"])
    row = {"seconds": None, "metric": None, "chance": workload.chance, "margin": workload.margin}
    row["seconds"] = ran.seconds
    if ran.why:
        return {**row, "passed": False, "why": ran.why}
    row["metric"] = metric = read_metric(ran.printed, workload.metric)
    if metric is None:
        why = f"its last line is not '{workload.metric}: ' and a number"
        return {**row, "passed": False, "why": why}
    gain = metric - workload.chance if workload.higher_is_better else workload.chance - metric
    return {**row, "passed": ran.seconds < LIMIT_S and gain >= workload.margin}


class Ran(NamedTuple):
    """A program: how long it took as a whole, what it printed, and why it failed, if it did."""

    seconds: float | None
    printed: str
    why: str


def run_program(arguments: list[str], *, gpu: bool = False) -> Ran:
    """Of Python; without ``gpu`` it sees none."""
    environment = os.environ if gpu else {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    start = time.perf_counter()
    try:
        ended = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return Ran(None, "", f"it was stopped after {PATIENCE_S} s")
    seconds = round(time.perf_counter() - start, 1)
    said = ended.stderr.strip().splitlines()[-1:]
    why = f"exit {ended.returncode}: {' '.join(said)}" if ended.returncode else ""
    return Ran(seconds, ended.stdout, why)


def read_metric(text: str, name: str) -> float | None:
    """From the last line, which is the metric's name and value."""
    lines = text.splitlines() or [""]
    found = re.fullmatch(rf"{re.escape(name)}: (-?\d+\.\d+)", lines[-1])
    return float(found[1]) if found else None


def script_parser(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="NAME", help="all, if none is named")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser


def parse(parser: argparse.ArgumentParser, names: Iterable[str]) -> argparse.Namespace:
    """Workloads are of the names, all of them if none was given."""
    arguments = parser.parse_args()
    if unknown := set(arguments.workloads) - set(names):
        parser.error(
            f"no workload is called {', '.join(sorted(unknown))}; there are {', '.join(names)}"
        )
    arguments.workloads = arguments.workloads or list(names)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
