"""How often is a difference claimed that is not there, and how often is a real one found?

``simulated``: identical arms on 2,000 simulated machines (heavy tails, drift, autocorrelation, a
hog midway) through the whole rule: a control, two pairs of fresh processes, a claim.
``real``: identical arms in real processes through the same rule, with a program that takes a core
switched on midway.
``power``: an arm that really computes 3 % more (34 blocks for 33), through the whole rule, by the
clock of the wall.

Beside each stands what a sequential rule of 3 % would have said of the same samples: one arm's
blocks of the first half against the other's of the second half, as if measured one after the other.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import simulated_arms
from hasten.measure.lab import Lab, Subject
from hasten.records.plan import NAIVE, Plan
from hasten.records.recipe import Confirmation
from hasten.records.verdict import Comparison, SpeedClaim
from hasten.tune.bench import decide_speed
from hasten.tune.confirm import (
    claim_speed,
    confirm,
    measure_noise,
    noise_floor,
)
from results_file import COMMIT, RESULTS, write_results

TASKS = Path(__file__).with_name("tasks.py")
RULE = 0.03
HOG = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
START_HOG = f"""
import subprocess, sys
nowhere = subprocess.DEVNULL
hog = subprocess.Popen([sys.executable, "-c", {HOG!r}], stdout=nowhere, stderr=nowhere)
print(hog.pid)
"""
"""So that it is no child of ours: what our own processes run is no disturbance."""
BLOCKS = Path(__file__).with_name("gated.py")
SLOWER = Subject(f"{BLOCKS}:of_34")
BAR_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["simulated", "real", "power"])
    parser.add_argument("--runs", type=int, help="how many; else 2000, 100 and 10")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the first; others follow")
    parser.add_argument("--threads", type=int, help="that torch computes with; else its own choice")
    parser.add_argument("--journal", type=Path, help="go on after what is in this file")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="", help="where there is no repository to ask")
    arguments = parser.parse_args()
    if arguments.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    runs = arguments.runs or {"simulated": 2000, "real": 100, "power": 10}[arguments.part]
    if arguments.part == "simulated":
        figures = simulate(arguments.seed, runs, arguments.cores)
    elif arguments.part == "real":
        figures = compare_identical(
            arguments.seed, runs, arguments.journal, arguments.commit or COMMIT
        )
    else:
        figures = find_slower(runs)
    for name, value in figures.items():
        if name != "runs":
            print(f"{name}: {value}")
    figures["threads"] = arguments.threads
    write_results(
        f"false-alarms-{arguments.part}", figures, commit=arguments.commit, folder=arguments.out
    )


def simulate(first: int, runs: int, cores: int) -> dict[str, Any]:
    seeds, more = range(first, first + runs), range(first + runs, first + runs + runs // 10)
    with ProcessPoolExecutor(cores) as pool:
        identical = list(pool.map(_simulated, seeds, [0.0] * runs, chunksize=10))
        slower = list(pool.map(_simulated, more, [0.03] * len(more)))
    single = [decision for each in identical for decision in each["decisions"]]
    missed = [each for each in (*identical, *slower) if not each["covers"]]
    return {
        "comparisons": len(identical),
        "intervals": len(identical) + len(slower),
        "intervals_that_miss_the_truth": len(missed),
        "claims_of_a_difference": sum(each["claim"] != "none" for each in identical),
        "single_comparisons": len(single),
        "single_decisions_for_a_difference": sum(each in ("faster", "slower") for each in single),
        "sequential_rule_claims": sum(each["sequential"] for each in identical),
        "three_percent_slower": {
            "comparisons": len(slower),
            "found_by_machine_trouble": _shares(slower),
            "wrong_sign": sum(each["claim"] == "faster" for each in slower),
        },
    }


def _shares(runs: Sequence[dict[str, Any]]) -> dict[str, str]:
    found: dict[str, list[bool]] = {}
    for each in runs:
        found.setdefault(f"{each['trouble']:g}", []).append(each["claim"] == "slower")
    return {name: f"{sum(each)} of {len(each)}" for name, each in sorted(found.items())}


def _simulated(seed: int, slower: float) -> dict[str, Any]:
    """The whole rule, as ``hasten bench`` has it."""
    machine = simulated_arms.Machine(seed)
    simulated_arms.live_on(machine)

    found, speed, _ = _whole_rule(simulated_arms.PretendingLab(machine, seed), 0.0, slower)
    covers = speed.low <= 1 / (1 + slower) <= speed.high
    return {**found, "trouble": machine.trouble, "covers": covers}


def _whole_rule(lab: Any, a: Any, b: Any) -> tuple[dict[str, Any], SpeedClaim, Confirmation]:
    """As ``hasten bench`` has it."""
    control = measure_noise(lab, a, _silent)
    floor = noise_floor(control)
    confirmation = confirm(lab, a, b, floor, _silent)
    speed = claim_speed(confirmation, floor)
    if speed is None:
        raise SystemExit(f"a pair failed: {confirmation.failure}")
    decision = decide_speed(speed)
    found = {
        "claim": decision if decision in ("faster", "slower") else "none",
        "decisions": [each.decision for each in (control, *confirmation.pairs)],
        "sequential": any(_sequential(each) for each in confirmation.pairs),
    }
    return found, speed, confirmation


def _sequential(comparison: Comparison) -> bool:
    """Would the usual rule have called these arms different?"""
    middle = len(comparison.rounds) // 2
    first = statistics.median(each.a_s for each in comparison.rounds[:middle])
    second = statistics.median(each.b_s for each in comparison.rounds[middle:])
    return not 1 / (1 + RULE) < first / second < 1 + RULE


def compare_identical(first: int, runs: int, journal: Path | None, commit: str) -> dict[str, Any]:
    """Each run with its commit: a journal may be gone on with after another one."""
    done = []
    if journal is not None and journal.exists():
        done = [json.loads(line) for line in journal.read_text().splitlines()]
    for number in range(len(done), runs):
        done.append({"commit": commit, **_identical_beside_a_hog(first + number)})
        print(done[-1], flush=True)
        if journal is not None:
            with journal.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    single = [decision for each in done for decision in each["decisions"]]
    return {
        "comparisons": len(done),
        "wins": sum(each["claim"] != "none" for each in done),
        "single_comparisons": len(single),
        "single_decisions_for_a_difference": sum(each in ("faster", "slower") for each in single),
        "sequential_rule_claims": sum(each["sequential"] for each in done),
        "runs": done,
    }


def _identical_beside_a_hog(seed: int) -> dict[str, Any]:
    """It comes 5 to 40 s after the beginning, and stays."""
    after_s = random.Random(seed).uniform(5, 40)
    hogs: list[int] = []
    timer = threading.Timer(after_s, lambda: hogs.append(_start_hog()))
    timer.start()
    try:
        with Lab(f"{TASKS}:bloom", seed) as lab:
            return {**_real(lab, NAIVE, seed), "hog_after_s": round(after_s, 1)}
    finally:
        timer.cancel()
        timer.join()
        for hog in hogs:
            with suppress(ProcessLookupError):
                os.kill(hog, signal.SIGKILL)


def _start_hog() -> int:
    started = subprocess.run([sys.executable, "-c", START_HOG], stdout=subprocess.PIPE, check=True)
    return int(started.stdout)


def find_slower(runs: int) -> dict[str, Any]:
    done = [_really_slower(seed) for seed in range(runs)]
    found = [each for each in done if each["claim"] == "slower"]
    return {
        "comparisons": len(done),
        "found": len(found),
        "found_within_the_bar": sum(each["seconds"] <= BAR_S for each in found),
        "wrong_sign": sum(each["claim"] == "faster" for each in done),
        "median_seconds": statistics.median(each["seconds"] for each in done),
        "runs": done,
    }


def _really_slower(seed: int) -> dict[str, Any]:
    with Lab(f"{BLOCKS}:of_33", seed) as lab:
        found = _real(lab, SLOWER, seed)
    print(found, flush=True)
    return found


def _real(lab: Lab, b: Plan | Subject, seed: int) -> dict[str, Any]:
    began = time.monotonic()
    found, speed, confirmation = _whole_rule(lab, NAIVE, b)
    pairs = confirmation.pairs
    loads = [each.load.others_cores for each in pairs if each.load is not None]
    return {
        "seed": seed,
        **found,
        "noise_floor": round(speed.noise_floor, 4),
        "pairs": [[round(each.low, 4), round(each.high, 4)] for each in pairs],
        "seconds": round(time.monotonic() - began, 1),
        "others_cores": round(max(loads), 2),
    }


def _silent(words: str) -> None:
    """Nothing is told: the figures are."""


if __name__ == "__main__":
    main()
