"""Has a ratio changed between two sessions, taken at other times on the same machine?

What is repeated is the pair of fresh processes, each with one ratio: rounds within a pair share
the pair's offset. The interval is Student's for the difference of two means of log ratios. A
session's spread is the largest of three: that of its own pairs, since one may be noisier than the
other; that of both sessions together, since few pairs may agree by chance; and what the rounds
within its pairs could tell.

The margin is for what the ratio to another workload does not cancel: a machine in another state,
with other neighbours or a lower clock, slows two kinds of work down by not quite the same factor.
"""

import math
import statistics
from collections.abc import Sequence
from statistics import NormalDist

from hasten.records.saved_bench import Change
from hasten.records.verdict import Comparison, Decision
from hasten.stats.student import critical_value

MARGIN = 0.03
CONFIDENCE = 0.95
"""Less than that of other claims: a false alarm has to get past the margin too."""


def change_since(before: Sequence[Comparison], now: Sequence[Comparison]) -> Change:
    """How many times as long B takes beside A; two pairs on each side at least."""
    degrees = len(before) + len(now) - 2
    together = (_squares(before) + _squares(now)) / degrees
    error = math.sqrt(sum(_variance(each, together) / len(each) for each in (before, now)))
    middle = statistics.fmean(_logs(before)) - statistics.fmean(_logs(now))
    reach = critical_value(CONFIDENCE, degrees) * error
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    return Change(
        times=math.exp(middle),
        low=low,
        high=high,
        confidence=CONFIDENCE,
        margin=MARGIN,
        decision=_decide(low, high),
    )


def _decide(low: float, high: float) -> Decision:
    """ "same" is what a gate asks: no slower than the margin allows."""
    if low > 1 + MARGIN:
        return "slower"
    if high < 1 / (1 + MARGIN):
        return "faster"
    return "same" if high < 1 + MARGIN else "undecided"


def _logs(pairs: Sequence[Comparison]) -> list[float]:
    return [math.log(each.ratio) for each in pairs]


def _variance(pairs: Sequence[Comparison], together: float) -> float:
    return max(statistics.variance(_logs(pairs)), together, _within(pairs))


def _squares(pairs: Sequence[Comparison]) -> float:
    logs = _logs(pairs)
    mean = statistics.fmean(logs)
    return sum((each - mean) ** 2 for each in logs)


def _within(pairs: Sequence[Comparison]) -> float:
    """The squared standard error that a pair's own interval stands for, in the mean."""
    reach = [math.log(each.high / each.low) / 2 for each in pairs]
    normal = [NormalDist().inv_cdf((1 + each.confidence) / 2) for each in pairs]
    return statistics.fmean((r / n) ** 2 for r, n in zip(reach, normal, strict=True))
