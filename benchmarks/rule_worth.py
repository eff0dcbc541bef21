"""What is it worth to follow a rule of `hasten scan`? Its code beside what it says to write.

    python benchmarks/rule_worth.py [CODE ...]
    python benchmarks/rule_worth.py --tell results/A.json [results/B.json ...]

Both sides of a pair (``rule_pairs.py``) are run in turns, in blocks of a fifth of a second or more;
the figure is the median of the ratios of neighbouring blocks, with the least and the most. First
the two are held to the same result. ``--tell`` measures nothing: it makes what `hasten explain`
tells of files of results.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from hasten.scan.worth import FILE
from results_file import RESULTS, write_results
from rule_pairs import PAIRS, Pair, Work

BLOCK_S = 0.2
ROUNDS = 9
TOLERANCE = 1e-3
"""Of what both sides compute: they round otherwise."""


def main() -> None:
    arguments = _parse()
    if arguments.tell:
        FILE.write_text(told(arguments.tell))
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows: dict[str, Any] = {}
    for each in PAIRS:
        if arguments.code and each.code not in arguments.code:
            continue
        if each.needs_gpu and device.type == "cpu":
            print(f"{each.code}  left out: it is about a GPU", flush=True)
            continue
        rows[each.code] = row = measure(each, device)
        print(f"{each.code}  {row['times']:8.2f}  {each.about}", flush=True)
    figures = {"on": device.type, "pairs": rows}
    write_results(
        f"rule-worth-{device.type}", figures, commit=arguments.commit, folder=arguments.out
    )


def told(files: list[Path]) -> str:
    """What stands in worth.json: of each code what every file has measured."""
    worths: dict[str, Any] = {}
    for path in files:
        found = json.loads(path.read_text())
        on = found["environment"]["device"]["name"]
        for code, row in found["pairs"].items():
            worth = worths.setdefault(code, {"about": row["about"], "measured": []})
            figures = {name: row[name] for name in ("times", "least", "most")}
            worth["measured"].append({"on": on, **figures, "results": path.name})
    return json.dumps(worths, indent=1, sort_keys=True) + "\n"


def measure(each: Pair, device: torch.device) -> dict[str, Any]:
    before, after = each.make(device)
    for _ in range(2):
        hold_alike(each.code, before(), after())
    counts = [runs_a_block(work, device) for work in (before, after)]
    ratios = []
    for number in range(ROUNDS):
        sides = [(before, counts[0]), (after, counts[1])]
        if number % 2:
            sides.reverse()
        taken = [timed(work, count, device) / count for work, count in sides]
        if number % 2:
            taken.reverse()
        ratios.append(taken[0] / taken[1])
    return {
        "about": each.about,
        "times": round(statistics.median(ratios), 3),
        "least": round(min(ratios), 3),
        "most": round(max(ratios), 3),
    }


def hold_alike(code: str, one: object, other: object) -> None:
    if one is None and other is None:
        return
    torch.testing.assert_close(
        torch.as_tensor(one, dtype=torch.float64, device="cpu"),
        torch.as_tensor(other, dtype=torch.float64, device="cpu"),
        rtol=TOLERANCE,
        atol=TOLERANCE,
        msg=lambda said: f"{code}: both sides must compute the same. {said}",
    )


def runs_a_block(work: Work, device: torch.device) -> int:
    once = timed(work, 1, device)
    return max(1, round(BLOCK_S / once))


def timed(work: Work, count: int, device: torch.device) -> float:
    _wait(device)
    began = time.perf_counter()
    for _ in range(count):
        work()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("code", nargs="*", help="all, if none is named")
    parser.add_argument("--tell", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
