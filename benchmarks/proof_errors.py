"""How often are the statistical checks of a proof wrong? Simulated, with all their looks."""

import argparse
from typing import Any

import numpy as np

from hasten.stats import equivalence, randomness
from results_file import write_results

SPREAD = 0.1
MEAN = 2.0
SEEDS = sorted((*equivalence.LOOKS, 6))
"""As many looks as there can be: time ended it after six seeds, and it was gone on with."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4000, help="sequences of each kind")
    trials = parser.parse_args().trials
    parity = [
        {"shift": shift, "noise": noise, "heavy_tails": heavy}
        | _parity(trials, shift, noise, heavy)
        for heavy in (False, True)
        for shift in (0.0, 0.5, 1.0, 1.5, 3.0)
        for noise in (0.05, 0.3, 1.0)
    ]
    streams = [
        {"shift": shift, "factor": factor} | _streams(trials, shift, factor)
        for shift, factor in ((0.0, 1.0), (0.5, 1.0), (0.0, 1.5), (1.0, 1.0), (0.0, 2.2))
    ]
    for row in (*parity, *streams):
        print(row)
    write_results(
        "proof-errors",
        {
            "trials": trials,
            "parity": {"unit": "spreads of the baseline over seeds", "rows": parity},
            "randomness": {"unit": "standard deviations over repeats", "rows": streams},
        },
    )


def _shares(ends: list[str]) -> dict[str, Any]:
    return {end: round(ends.count(end) / len(ends), 5) for end in sorted(set(ends))}


def _parity(trials: int, shift: float, noise: float, heavy: bool) -> dict[str, Any]:
    """Differences of mean ``shift`` and standard deviation ``noise``, both in spreads."""
    rng = np.random.default_rng(5)
    shape = trials, 2, equivalence.LOOKS[-1]
    draws = rng.standard_t(5, shape) / (5 / 3) ** 0.5 if heavy else rng.standard_normal(shape)
    ends = []
    for one, other in draws:
        naive = MEAN + SPREAD * one
        plan = naive + SPREAD * (shift + noise * other)
        for look in SEEDS:
            likeness = equivalence.judge(naive[:look].tolist(), plan[:look].tolist()).likeness
            if likeness != "undecided":
                break
        ends.append(likeness)
    return _shares(ends)


def _streams(trials: int, shift: float, factor: float) -> dict[str, Any]:
    """Two streams of normal losses, the second moved by ``shift`` and stretched by ``factor``."""
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(trials):
        one, other = rng.standard_normal((2, randomness.LOOKS[-1]))
        for look in randomness.LOOKS:
            sides = {"loss": 5 + one[:look]}, {"loss": 5 + shift + factor * other[:look]}
            likeness = randomness.compare_distributions(*sides)
            if likeness != "undecided":
                break
        ends.append(likeness)
    return _shares(ends)


if __name__ == "__main__":
    main()
