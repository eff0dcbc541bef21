"""Is dropout still dropout? Masks from inside where they can be seen, their effect from outside.

A step is repeated with the same batch and the same weights: all that moves is chance. Three things
are asked.

Keep rate: of n elements that were not zero, k were kept. A rate q gives a share as far from q as
k/n with probability 2 exp(-n KL(k/n, q)) at most (Chernoff), and less than ERROR is refuted.

Masks: two masks of n elements are equal with probability c = (q^2 + (1-q)^2)^n. Of N masks, x or
more equal pairs come with probability N (N-1) / 2 * c / x at most (Markov); below ERROR is refuted.

Distribution, where the streams differ: of the loss and of gradient norms over the repeats, the mean
may differ by MEAN_MARGIN standard deviations and the standard deviation by a factor of
SPREAD_MARGIN. "Same" needs all intervals within the margins, "other" one interval beyond its own.
The looks share the error, and for "other" so do the quantities.

Error: each of these calls a right dropout wrong in at most ERROR of all proofs; for the
distribution that, and that a shift by a margin is called the same, is asymptotic, and simulated in
tests/stats/test_chance_of_masks.py.

Limits: how the elements of a mask hang together is seen only by its effect on loss and gradients.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

ERROR = 0.001
LOOKS = (256, 512)
"""Repeats after which the distributions are compared."""
MEAN_MARGIN = 0.5
SPREAD_MARGIN = 1.5
CONSTANT = 1e-6
"""A spread below this share of the mean is rounding, not chance."""
PAIRED = 1e-2
"""Differences below this share of the spread between repeats are rounding of one stream."""

Likeness = Literal["same", "other", "undecided"]
Values = Mapping[str, Sequence[float]]
"""Of each quantity, one for each repeat."""


def chance_of_rate(kept: int, seen: int, rate: float) -> float:
    """At most so likely is a share of kept elements that is as far from ``rate``."""
    if not 0 < rate < 1:
        return 1.0 if kept == round(seen * rate) else 0.0
    share = kept / seen
    return min(1.0, 2 * math.exp(-seen * _divergence(share, rate)))


def chance_of_repeats(prints: Sequence[int], seen: int, rate: float) -> float:
    """At most so likely are as many equal pairs among masks, told by their fingerprints."""
    equal = sum(count * (count - 1) // 2 for count in Counter(prints).values())
    if not equal:
        return 1.0
    pairs = len(prints) * (len(prints) - 1) / 2
    return min(1.0, pairs * (rate**2 + (1 - rate) ** 2) ** seen / equal)


def is_constant(values: Sequence[float]) -> bool:
    """Whether chance moves it at all."""
    return float(np.std(values)) <= CONSTANT * abs(float(np.mean(values)))


def is_one_stream(one: Values, other: Values) -> bool:
    """Repeat for repeat the same, but for rounding."""
    return all(
        float(np.max(np.abs(np.subtract(one[name], other[name])))) <= PAIRED * np.std(one[name])
        for name in _moved(one)
    )


def compare_distributions(one: Values, other: Values) -> Likeness:
    names = _moved(one)
    if any(is_constant(other[name]) for name in names):
        return "other"
    spans = [span for name in names for span in _spans(one[name], other[name], len(names))]
    if any(far for _, far in spans):
        return "other"
    return "same" if spans and all(within for within, _ in spans) else "undecided"


def _spans(one: Sequence[float], other: Sequence[float], among: int) -> list[tuple[bool, bool]]:
    """For the mean and for the spread: whether the interval is within its margin, or beyond it."""
    a, b = np.asarray(one, float), np.asarray(other, float)
    scale = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    shift = (float(b.mean()) - float(a.mean())) / scale
    shift_error = math.sqrt(1 / len(a) + 1 / len(b))
    ratio = math.log(b.std(ddof=1) / a.std(ddof=1))
    ratio_error = math.sqrt(_log_spread_variance(a) + _log_spread_variance(b))
    found = ((shift, shift_error, MEAN_MARGIN), (ratio, ratio_error, math.log(SPREAD_MARGIN)))
    share = ERROR / len(LOOKS)
    near, far = (NormalDist().inv_cdf(1 - each) for each in (share, share / (4 * among)))
    return [
        (abs(middle) + near * error <= margin, abs(middle) - far * error > margin)
        for middle, error, margin in found
    ]


def _log_spread_variance(values: np.ndarray) -> float:
    """Of the logarithm of a standard deviation; heavy tails make it large."""
    centred = values - values.mean()
    kurtosis = float((centred**4).mean() / (centred**2).mean() ** 2)
    return (kurtosis - 1) / (4 * len(values))


def _moved(values: Values) -> list[str]:
    return [name for name, each in values.items() if not is_constant(each)]


def _divergence(share: float, rate: float) -> float:
    """Kullback-Leibler, of one coin from another."""
    terms = ((share, rate), (1 - share, 1 - rate))
    return sum(p * math.log(p / q) for p, q in terms if p > 0)
