"""How long does a scan take, beside a bare ast.parse of the same files?

    python benchmarks/scan_speed.py --tree NAME=FOLDER [--tree ...] [--write]

Files of each tree are parsed and analysed in turns, in one process, so that both meet the same
minutes; then the real command is run, with nothing kept, with everything kept, and on parts of the
tree. Trees are only read. The tests of the standard library are read too: no file may end a scan.
"""

import argparse
import ast
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import test

from hasten.scan.analysis import analyse
from hasten.scan.files import python_files
from hasten.scan.looking import Rules
from hasten.scan.reading import UnreadableError, decode, matters, read
from hasten.scan.registry import all_rules
from hasten.scan.rule import Rule
from results_file import write_results

ROUNDS = 3
PARTS = (0.25, 0.5, 1.0)
ENOUGH_LINES = 300_000
"""To be parsed and analysed in turns; of larger trees every so many files."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--write", action="store_true", help="write a file of results")
    options = parser.parse_args()
    figures: dict[str, Any] = {"rules": len(all_rules()), "trees": {}}
    for each in options.tree:
        name, _, folder = each.partition("=")
        figures["trees"][name] = measure(Path(folder).resolve())
        print(name, json.dumps(figures["trees"][name], indent=1))
    figures["standard_library_tests"] = read_all(Path(test.__file__).parent)
    print(json.dumps(figures["standard_library_tests"]))
    if options.write:
        write_results("scan-speed", figures)


def measure(folder: Path) -> dict[str, Any]:
    texts = texts_under(folder)
    found = beside_parsing(texts)
    found["command"] = {f"{part:g}": by_command(folder, part) for part in PARTS}
    found["one_more_rule_percent"] = cost_of_rules(texts)
    return found


def texts_under(folder: Path) -> list[str]:
    """Of the files that matter and can be parsed."""
    texts = []
    for path in python_files([folder]).found:
        try:
            content = read(path)
            if matters(content):
                text = decode(content)
                ast.parse(text)
                texts.append(text)
        except (UnreadableError, SyntaxError, ValueError):
            continue
    return texts[:: max(1, sum(text.count("\n") for text in texts) // ENOUGH_LINES)]


def beside_parsing(texts: Sequence[str]) -> dict[str, Any]:
    rules = Rules.of(all_rules())
    ratios, parsed, analysed = [], [], []
    for _ in range(ROUNDS):
        parse_s = analyse_s = 0.0
        for text in texts:
            parse_s += timed(lambda text=text: ast.parse(text))
            analyse_s += timed(lambda text=text: analyse(text, rules))
        ratios.append(analyse_s / parse_s)
        parsed.append(parse_s)
        analysed.append(analyse_s)
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "parse_s": round(statistics.median(parsed), 2),
        "analyse_s": round(statistics.median(analysed), 2),
        "analyse_to_parse": [round(each, 3) for each in ratios],
    }


def timed(work: Any) -> float:
    """CPU seconds, without looking for garbage, which would slow parsing down most."""
    gc.disable()
    began = time.process_time()
    work()
    taken = time.process_time() - began
    gc.enable()
    return taken


def cost_of_rules(texts: Sequence[str]) -> dict[str, float]:
    """Of a scan by all rules, in turns with scans by half of them, for each rule of the other half;
    a rule's own share is lost in the noise."""
    rules = all_rules()
    halves = {"first half left out": rules[1::2], "second half left out": rules[0::2]}
    whole = dict.fromkeys(halves, 0.0)
    left = dict.fromkeys(halves, 0.0)
    for text in texts:
        for name, kept in halves.items():
            whole[name] += timed(lambda text=text: analyse(text, ALL))
            left[name] += timed(lambda text=text, kept=kept: analyse(text, looked_for(kept)))
    return {
        name: round(100 * (whole[name] / left[name] - 1) / (len(rules) - len(kept)), 3)
        for name, kept in halves.items()
    }


ALL = Rules.of(all_rules())
_kept: dict[tuple[Rule, ...], Rules] = {}


def looked_for(rules: tuple[Rule, ...]) -> Rules:
    return _kept.setdefault(rules, Rules.of(rules))


def by_command(folder: Path, part: float) -> dict[str, float]:
    """Of the first so many files, copied: cold, then with everything kept."""
    with tempfile.TemporaryDirectory() as scratch:
        copy, lines = Path(scratch, "tree"), 0
        files = python_files([folder]).found
        for path in files[:: round(1 / part)]:
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            lines += target.read_bytes().count(b"\n")
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(scratch, "kept"))}
        cold_s, cold_cpu_s, memory = run(copy, environment)
        warm = [run(copy, environment)[:2] for _ in range(ROUNDS)]
    return {
        "lines": lines,
        "cold_s": round(cold_s, 2),
        "cold_cpu_s": round(cold_cpu_s, 2),
        "cold_cpu_us_per_line": round(1e6 * cold_cpu_s / lines, 2),
        "warm_s": round(statistics.median(seconds for seconds, _ in warm), 2),
        "warm_cpu_s": round(statistics.median(seconds for _, seconds in warm), 2),
        "peak_mb_of_a_process": round(memory / 1e6),
    }


WATCH = """
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)
sys.exit(0 if ended.returncode in (0, 1) else 1)
"""


def run(folder: Path, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds by the clock and of CPUs, and the most memory that one of its processes took."""
    command = [sys.executable, "-c", WATCH, sys.executable, "-m", "hasten", "scan", str(folder)]
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, "--json"], env=environment, capture_output=True, text=True, check=True
    )
    cpu_s, memory = map(float, ended.stdout.split())
    return time.perf_counter() - began, cpu_s, memory


def read_all(folder: Path) -> dict[str, Any]:
    """Every file is analysed as if it mattered."""
    analysed = 0
    reasons: list[str] = []
    for path in python_files([folder]).found:
        try:
            text = decode(read(path))
        except UnreadableError as error:
            reasons.append(str(error))
            continue
        failure = analyse(f"import torch\n{text}", ALL).failure
        analysed += not failure
        reasons += [failure] if failure else []
    return {"analysed": analysed, "unreadable": len(reasons), "reasons": sorted(set(reasons))[:20]}


if __name__ == "__main__":
    main()
