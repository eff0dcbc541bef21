"""Is arm B faster than arm A? Interleaved pairs, a bootstrap interval, a margin.

Method: each round times a short block of both arms back to back, in random order. The figure is
the median over rounds of log(A's seconds per row / B's), which a burst of foreign load, hitting
both halves of a pair or few pairs, hardly moves. Its interval is a block bootstrap: runs of
neighbouring rounds are drawn together, since neighbours are alike (drift, bursts). A spread that
was learnt from few such runs is itself uncertain, so the interval is widened as Student's t is
wider than the normal distribution: 2.3 times with 4 runs, 1.1 times with 20. Without that, an
interval of 99 % from 20 to 50 simulated rounds missed the truth in 4 to 7 % of all cases.

A difference is claimed only when the whole interval lies beyond a margin of 1 %: two identical
processes keep an offset of about 0.3 % for as long as they live (memory placement), so that an
interval that merely excludes 1 is wrong far more often than it says.

Limits: the median does not see a cost that falls on few rounds; where that is known to be, as with
loader workers that start with each epoch, the ratio of whole times is taken in. An offset between
two processes is not averaged out by more rounds: the final word needs fresh processes. The
confidence is that of one look; who looks many times and stops at the first decision errs more
often.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hasten.records.verdict import Decision
from hasten.stats.student import critical_value

MARGIN = 0.01
SAME = 0.03
"""A difference that is surely smaller is none worth a change."""
CONFIDENCE = 0.99
ROUNDS_PER_BLOCK = 5
"""At least. Drawn together are all that ALIKE_S holds."""
ALIKE_S = 1.0
"""What lies so close together may be alike."""
FEWEST_BLOCKS = 4
MINIMUM_ROUNDS = FEWEST_BLOCKS * ROUNDS_PER_BLOCK
"""With fewer an interval has no meaning."""
FEWEST_TURNS = 4
"""Of rounds that are independent, being processes of their own."""
RESAMPLES = 4000
FEWEST_TOGETHER = 3
"""Comparisons whose spread tells something: two may agree by luck."""
LEAST_WEIGHT = 1 / 3
"""Of a pair, beside that of the surest, which must not carry a claim alone."""


@dataclass(frozen=True)
class Interval:
    """Of the ratio: how many times faster B is than A."""

    ratio: float
    low: float
    high: float

    def widened_to(self, whole: float) -> "Interval":
        """By the ratio of whole times, where some rounds pay for what all of them need: loader
        workers that start with each epoch. It is then the figure as well."""
        return Interval(whole, min(self.low, whole), max(self.high, whole))


def ratio_interval(
    a_s: Sequence[float],
    b_s: Sequence[float],
    *,
    confidence: float = CONFIDENCE,
    elapsed_s: float | None = None,
    seed: int = 0,
) -> Interval:
    """Median ratio of A's time to B's over paired rounds, with its bootstrap interval.

    ``elapsed_s`` is what all rounds took, with what lies between them. Fewer rounds than
    MINIMUM_ROUNDS give the interval from zero to infinity: they prove nothing.
    """
    logs = _log_ratios(a_s, b_s)
    middle = float(np.median(logs)) if len(logs) else 0.0
    if len(logs) < MINIMUM_ROUNDS:
        return Interval(float(np.exp(middle)), 0.0, float("inf"))
    alike = _rounds_alike(len(logs), elapsed_s)
    medians = np.median(_resampled(logs, alike, seed), axis=1)
    tail = (1 - confidence) / 2
    widening = _widening(len(logs) // alike, confidence)
    reach = widening * (np.quantile(medians, [tail, 1 - tail]) - middle)
    ratio, low, high = np.exp([middle, *(middle + reach)])
    return Interval(float(ratio), float(low), float(high))


def interval_of_few(
    a_s: Sequence[float], b_s: Sequence[float], *, confidence: float = CONFIDENCE
) -> Interval:
    """Mean log ratio of rounds that are long, few and independent, with Student's interval."""
    logs = _log_ratios(a_s, b_s)
    middle = float(np.mean(logs))
    if len(logs) < FEWEST_TURNS:
        return Interval(float(np.exp(middle)), 0.0, float("inf"))
    error = float(np.std(logs, ddof=1)) / len(logs) ** 0.5
    reach = critical_value(confidence, len(logs) - 1) * error
    ratio, low, high = np.exp([middle, middle - reach, middle + reach])
    return Interval(float(ratio), float(low), float(high))


def pooled(intervals: Sequence[Interval], offset: float) -> Interval:
    """Of comparisons in processes of their own, together: the mean of their logs, the surer ones
    weighing more.

    Each is off by its own noise, which its interval tells, and by what its two processes differ by
    for as long as they live, which it cannot tell: up to ``offset``, as a share. Independent errors
    average out. Where ``offset`` is too little the comparisons disagree; so the interval of two
    covers at least what each came to by itself, and that of more is as wide as Student's of their
    mean.
    """
    if len(intervals) == 1:
        return intervals[0]
    if not all(each.low > 0 and math.isfinite(each.high) for each in intervals):
        middle = np.exp(np.mean(np.log([each.ratio for each in intervals])))
        return Interval(float(middle), 0.0, math.inf)
    logs = np.log([[each.ratio, each.low, each.high] for each in intervals])
    middles, lows, highs = logs.T
    kept = np.log1p(offset)
    weights = 1 / np.square(np.hypot((highs - lows) / 2, kept))
    weights = np.maximum(weights, weights.max() * LEAST_WEIGHT)
    weights /= weights.sum()
    middle = weights @ middles
    below = np.linalg.norm(weights * np.hypot(middles - lows, kept))
    above = np.linalg.norm(weights * np.hypot(highs - middles, kept))
    lowest, highest = _spread(middles)
    low, high = min(middle - below, lowest), max(middle + above, highest)
    return Interval(*(float(each) for each in np.exp([middle, low, high])))


def _spread(middles: np.ndarray) -> tuple[float, float]:
    """By how they differ among themselves alone."""
    if len(middles) < FEWEST_TOGETHER:
        return float(middles.min()), float(middles.max())
    error = float(np.std(middles, ddof=1)) / len(middles) ** 0.5
    reach = critical_value(CONFIDENCE, len(middles) - 1) * error
    return float(middles.mean()) - reach, float(middles.mean()) + reach


def decide(interval: Interval, margin: float = MARGIN) -> Decision:
    """ "same" is a claim too: the whole interval lies within the margin."""
    beyond, within = 1 + margin, 1 / (1 + margin)
    if interval.low > beyond:
        return "faster"
    if interval.high < within:
        return "slower"
    return "same" if interval.low > within and interval.high < beyond else "undecided"


def _log_ratios(a_s: Sequence[float], b_s: Sequence[float]) -> np.ndarray:
    if len(a_s) != len(b_s):
        raise ValueError(f"arms are paired, and have {len(a_s)} and {len(b_s)} rounds")
    logs: np.ndarray = np.log(np.asarray(a_s, float)) - np.log(np.asarray(b_s, float))
    if not np.isfinite(logs).all():
        raise ValueError("a block took no time, or no finite one")
    return logs


def _rounds_alike(rounds: int, elapsed_s: float | None) -> int:
    alike = math.ceil(rounds * ALIKE_S / elapsed_s) if elapsed_s else 0
    return min(max(ROUNDS_PER_BLOCK, alike), rounds // FEWEST_BLOCKS)


def _widening(blocks: int, confidence: float) -> float:
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    return critical_value(confidence, blocks - 1) / normal


def _resampled(logs: np.ndarray, alike: int, seed: int) -> np.ndarray:
    """Rows of rounds drawn in runs of neighbours, wrapped around so that none is drawn less."""
    rounds = len(logs)
    blocks = -(-rounds // alike)
    starts = np.random.default_rng(seed).integers(0, rounds, (RESAMPLES, blocks))
    index = (starts[:, :, None] + np.arange(alike)) % rounds
    drawn: np.ndarray = logs[index.reshape(RESAMPLES, -1)[:, :rounds]]
    return drawn
