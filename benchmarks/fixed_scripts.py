"""Is a plain script of the gallery faster once `hasten scan --fix` has been over it, and does it
train the same?

Three copies of each script: as it is, with the safe fixes, with the unsafe ones too. Each is run as
a program with its own settings, one after the other in an order that is drawn anew for each round;
the time is that of the whole program, and a copy is held against the plain one of its own round. A
ratio below 1 is faster. The same: with safe fixes every character that is printed, losses and
metric, with unsafe ones every number to 1e-3 of it, or to the last digit that is printed. Where the
plain script does not print the same twice, as it may on a GPU, that is told; it says nothing of the
fixes then. Exit 1 where a copy fails or does not train the same.

Without --gpu the scripts see none.
"""

import math
import random
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from hasten import gallery
from hasten.gallery.catalogue import read_catalogue
from hasten.records.gallery import Workload
from hasten.scan.fix import fix
from naive_scripts import Ran, parse, read_metric, run_program, script_parser
from results_file import write_results

PLAIN, FIXED = "naive", ("safe", "unsafe")
NEAR, DIGIT = 1e-3, 1e-4
NUMBER = re.compile(r"-?\d+\.\d+|nan|inf")


def main() -> int:
    workloads = {each.name: each for each in read_catalogue().workloads}
    parser = script_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gpu", action="store_true", help="let the scripts use the GPU")
    parser.add_argument("--seed", type=int, default=0, help="of the order within the rounds")
    arguments = parse(parser, workloads)
    orders = random.Random(arguments.seed)
    figures: dict[str, Any] = {"rounds": arguments.rounds, "gpu": arguments.gpu, "scripts": {}}
    for name in arguments.workloads:
        with tempfile.TemporaryDirectory() as folder:
            copies, fixes = copies_of(name, Path(folder))
            rounds = [run_round(copies, orders, arguments.gpu) for _ in range(arguments.rounds)]
        figures["scripts"][name] = row = compare(workloads[name], rounds, fixes)
        print(f"{name:12}{row}", flush=True)
    write_results("fixed-scripts", figures, commit=arguments.commit, folder=arguments.out)
    rows = [row[each] for row in figures["scripts"].values() for each in FIXED if each in row]
    return int(not all(row["same"] for row in rows))


def copies_of(name: str, folder: Path) -> tuple[dict[str, Path], dict[str, int]]:
    """The script and what its fixes make of it, with how many there are; without a copy where there
    are none to make, or none beyond the safe ones."""
    script = Path(gallery.__path__[0]) / name / "naive.py"
    copies, fixes = {PLAIN: folder / f"{PLAIN}.py"}, {PLAIN: 0}
    shutil.copyfile(script, copies[PLAIN])
    for arm in FIXED:
        copy = Path(shutil.copyfile(script, folder / f"{arm}.py"))
        count = len(fix([copy], unsafe=arm == "unsafe").fixed)
        if count > max(fixes.values()):
            copies[arm], fixes[arm] = copy, count
    return copies, fixes


def run_round(copies: dict[str, Path], orders: random.Random, gpu: bool) -> dict[str, Ran]:
    names = orders.sample(list(copies), len(copies))
    return {name: run_program([str(copies[name])], gpu=gpu) for name in names}


def compare(
    workload: Workload, rounds: list[dict[str, Ran]], fixes: dict[str, int]
) -> dict[str, Any]:
    plain = [each[PLAIN] for each in rounds]
    row: dict[str, Any] = {
        PLAIN: {
            **outcome(workload, plain),
            "repeats_itself": len({each.printed for each in plain}) == 1,
        }
    }
    for arm in (each for each in fixes if each != PLAIN):
        ran = [each[arm] for each in rounds]
        row[arm] = {"fixes": fixes[arm], **outcome(workload, ran), **against(plain, ran, arm)}
    return row


def outcome(workload: Workload, ran: list[Ran]) -> dict[str, Any]:
    return {
        "seconds": [each.seconds for each in ran],
        "metric": [read_metric(each.printed, workload.metric) for each in ran],
        "why": sorted({each.why for each in ran if each.why}),
    }


def against(plain: list[Ran], ran: list[Ran], arm: str) -> dict[str, Any]:
    pairs = list(zip(plain, ran, strict=True))
    ratios = [b.seconds / a.seconds for a, b in pairs if a.seconds and b.seconds]
    row: dict[str, Any] = {"same": all(trains_alike(a, b, arm) for a, b in pairs)}
    if ratios:
        row["ratio"] = round(statistics.median(ratios), 3)
        row["ratio_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    return row


def trains_alike(plain: Ran, fixed: Ran, arm: str) -> bool:
    if plain.why or fixed.why:
        return False
    if arm == "safe":
        return plain.printed == fixed.printed
    numbers = [[float(each) for each in NUMBER.findall(ran.printed)] for ran in (plain, fixed)]
    return len(numbers[0]) == len(numbers[1]) and all(
        math.isclose(a, b, rel_tol=NEAR, abs_tol=DIGIT) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(*numbers, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
