"""Are the verdicts right? Identical arms, a planted slowdown, planted wrong gradients.

Each comparison is a whole one, as `hasten bench` makes it: a control of identical arms and two
pairs of fresh processes. About half an hour on two quiet cores.
"""

import argparse
from pathlib import Path
from typing import Any

from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.tune.confirm import claim_speed, confirm, measure_noise, noise_floor
from hasten.tune.prove import Prover
from results_file import write_results

TASKS = Path(__file__).with_name("tasks.py")
PLANTED = Path(__file__).parents[1] / "tests/tasks/planted.py"
SLOW = Plan(parts={"more_work": {"share": 0.2}})
WRONG = ("scaled_gradient", "frozen_parameter", "wrong_gradient_equal_loss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--identical", type=int, default=20, help="comparisons of identical arms")
    parser.add_argument("--slowed", type=int, default=10, help="comparisons with a slowed arm")
    arguments = parser.parse_args()
    slowed = [_compare(SLOW, NAIVE, 100 + seed) for seed in range(arguments.slowed)]
    identical = [_compare(NAIVE, NAIVE, seed) for seed in range(arguments.identical)]
    wrong = _prove_wrong_techniques()
    figures = {
        "identical_arms": {
            "comparisons": len(identical),
            "false_claims": sum(each["claimed"] for each in identical),
        },
        "slowed_by_a_fifth": {
            "comparisons": len(slowed),
            "proven": sum(each["verdict"] == "proven" for each in slowed),
        },
        "wrong_techniques": {
            "planted": len(wrong),
            "refuted": sum(each["verdict"] == "refuted" for each in wrong),
        },
    }
    print(figures)
    write_results(
        "verdicts", {**figures, "runs": {"identical": identical, "slowed": slowed, "wrong": wrong}}
    )


def _compare(a: Plan, b: Plan, seed: int) -> dict[str, Any]:
    with Lab(f"{TASKS}:bloom", seed) as lab:
        control = measure_noise(lab, a, lambda message: None)
        floor = noise_floor(control)
        confirmation = confirm(lab, a, b, floor, lambda message: None)
    speed = claim_speed(confirmation, floor)
    if speed is None:
        raise SystemExit(f"a pair failed: {confirmation.failure}")
    found = {
        "verdict": speed.verdict,
        "claimed": speed.verdict == "proven" or speed.high < 1 / floor,
        "ratio": round(speed.ratio, 4),
        "low": round(speed.low, 4),
        "high": round(speed.high, 4),
        "noise_floor": round(floor, 4),
        "seconds": round(control.elapsed_s + sum(each.elapsed_s for each in confirmation.pairs), 1),
    }
    print(f"{a} against {b}: {found}", flush=True)
    return found


def _prove_wrong_techniques() -> list[dict[str, str]]:
    found = []
    with Lab(f"{PLANTED}:small", seed=1) as lab:
        prover = Prover(lab, lab.describe().traits, seed=1)
        for name in WRONG:
            claim = prover.prove(Plan(parts={name: {}}), Rung.ROUNDING)
            found.append({"technique": name, "verdict": claim.verdict, "why": claim.why()})
            print(found[-1], flush=True)
    return found


if __name__ == "__main__":
    main()
