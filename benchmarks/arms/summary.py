"""From the seconds of blocks to the figures of a results file."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hasten.stats.paired import CONFIDENCE, ratio_interval

EXPERTS = ("expert", "expert_graph")
SMOOTHED_STEPS = 50
"""The last of the losses, whose mean is compared."""

Seconds = Mapping[str, Sequence[float]]
"""Per sample, of each arm's blocks, round by round."""


def better_expert(seconds: Seconds) -> str | None:
    """The variant with the higher median rate; both stand in the results."""
    measured = [name for name in EXPERTS if seconds.get(name)]
    return min(measured, key=lambda name: statistics.median(seconds[name]), default=None)


def describe_speed(name: str, seconds: Seconds) -> dict[str, Any]:
    own = seconds[name]
    rates = [1 / each for each in own]
    return {
        "median_samples_per_s": _rounded(statistics.median(rates)),
        # Sees the ends of epochs, which the median does not.
        "mean_samples_per_s": _rounded(len(own) / sum(own)),
        "times_expert": _ratio(seconds, better_expert(seconds), name),
        "times_naive": _ratio(seconds, "naive", name),
        "block_samples_per_s": [_rounded(rate) for rate in rates],
    }


def _ratio(seconds: Seconds, base: str | None, name: str) -> dict[str, Any] | None:
    """How many times faster than the base, over rounds; no interval from too few of them."""
    if base is None or not seconds.get(base) or base == name:
        return None
    found = ratio_interval(seconds[base], seconds[name])
    known = math.isfinite(found.high)
    return {
        "ratio": _rounded(found.ratio),
        "low": _rounded(found.low) if known else None,
        "high": _rounded(found.high) if known else None,
        "confidence": CONFIDENCE,
    }


def describe_losses(losses: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """Of each arm: the mean of the last losses, and how far that is from the naive arm's."""
    final = {name: statistics.fmean(each[-SMOOTHED_STEPS:]) for name, each in losses.items()}
    naive = final.get("naive")
    return {
        name: {
            "final_loss": _rounded(final[name]),
            "final_loss_times_naive": _rounded(final[name] / naive) if naive else None,
            "losses": list(losses[name]),
        }
        for name in losses
    }


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
