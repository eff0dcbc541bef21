"""Do two trainings come to the same? Paired seeds, a margin from the baseline's own spread.

Method: two one-sided tests. Each seed gives one value of each side, from the same weights and the
same order of data, and d is their difference. The margin is what another seed alone would do: one
standard deviation of the baseline's values over seeds, and at least FLOOR of their mean.
"Equivalent" needs the whole interval of the mean d within the margin, "different" the whole
interval beyond it.

The spread is learnt from the same few seeds. So "equivalent" is held to the least spread that fits
them and "different" to the largest (chi-square). The error is shared by the looks at 4, 8, 16, 32
and 64 seeds and one where time ends them, and in each look by the interval and the margin. Several
quantities need no share for "equivalent", which all must be; each gets its share for "different",
which one alone can be.

Error: at most ERROR, over all looks together, that trainings whose true difference is the true
margin or more are called equivalent; at most ERROR that ones within it are called different.
Simulated (benchmarks/proof_errors.py) it is 0.7 and 1.2 % at the margin itself.

Limits: the values are taken to be normal over seeds; with heavy tails (Student's t, 5 degrees) the
errors at the margin are 8.1 and 6.9 %. A run that fails once in a hundred is not seen by 64.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hasten.stats.chi_square import quantile
from hasten.stats.student import critical_value

ERROR = 0.05
LOOKS = (4, 8, 16, 32, 64)
"""Seeds after which it is asked whether the test can decide."""
FLOOR = 0.001
"""Of the mean: a thousandth of a loss or a metric is no difference, however steady the seeds."""
SHARE = ERROR / (len(LOOKS) + 1)
"""Of each look, and of one more, where time ends it between two of them; who goes on from there has
had that one."""

Likeness = Literal["equivalent", "different", "undecided"]


@dataclass(frozen=True)
class Judgement:
    """Of one quantity: candidate minus baseline."""

    likeness: Likeness
    difference: float
    low: float
    high: float
    """The interval that "equivalent" is held to."""
    margin: float
    """The margin that "equivalent" is held to."""
    spread: float
    """Standard deviation of the baseline's values over seeds."""


def judge(baseline: Sequence[float], candidate: Sequence[float], among: int = 1) -> Judgement:
    """``among`` is the number of quantities that are judged together."""
    seeds = len(baseline)
    if len(candidate) != seeds or seeds < LOOKS[0]:
        raise ValueError(f"{seeds} and {len(candidate)} values, and pairs of {LOOKS[0]} are needed")
    if not all(map(math.isfinite, (*baseline, *candidate))):
        raise ValueError("a value is not finite")
    differences = [other - one for one, other in zip(baseline, candidate, strict=True)]
    middle = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(seeds)
    spread = statistics.stdev(baseline)
    floor = FLOOR * abs(statistics.fmean(baseline))
    reach = _reach(seeds, SHARE) * error
    margin = max(floor, spread * _scale(seeds, 1 - SHARE / 2))
    largest = max(floor, spread * _scale(seeds, SHARE / 2 / among))
    far = _reach(seeds, SHARE / among) * error
    likeness: Likeness = "undecided"
    if abs(middle) + reach <= margin:
        likeness = "equivalent"
    elif abs(middle) - far > largest:
        likeness = "different"
    return Judgement(likeness, middle, middle - reach, middle + reach, margin, spread)


@cache
def _reach(seeds: int, error: float) -> float:
    """In standard errors, so that the mean lies beyond either end with half of ``error``."""
    return critical_value(1 - error, seeds - 1)


@cache
def _scale(seeds: int, probability: float) -> float:
    """Times the spread that was found: the true one is larger with this probability."""
    return math.sqrt((seeds - 1) / quantile(probability, seeds - 1))
