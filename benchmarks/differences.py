"""How much more one arm takes than another, in the unit of the arms.

Method: as ``hasten.stats.paired``, whose ratios become differences here: the median over rounds,
a bootstrap that draws runs of neighbouring rounds together, widened as Student's t is wider than
the normal distribution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hasten.stats.paired import CONFIDENCE, MINIMUM_ROUNDS, RESAMPLES, ROUNDS_PER_BLOCK
from hasten.stats.student import critical_value


@dataclass(frozen=True)
class Difference:
    median: float
    low: float | None
    """None where the rounds are too few for an interval."""
    high: float | None
    confidence: float = CONFIDENCE


def difference_interval(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Difference:
    """How much more B is than A, over paired rounds."""
    differences = np.asarray(b, float) - np.asarray(a, float)
    middle = round(float(np.median(differences)), 3)
    rounds = len(differences)
    if rounds < MINIMUM_ROUNDS:
        return Difference(middle, None, None)
    blocks = -(-rounds // ROUNDS_PER_BLOCK)
    starts = np.random.default_rng(seed).integers(0, rounds, (RESAMPLES, blocks, 1))
    drawn = (starts + np.arange(ROUNDS_PER_BLOCK)).reshape(RESAMPLES, -1)[:, :rounds] % rounds
    medians = np.median(differences[drawn], axis=1)
    tail = (1 - CONFIDENCE) / 2
    reach = _widening(rounds) * (np.quantile(medians, [tail, 1 - tail]) - middle)
    return Difference(middle, *(round(float(middle + each), 3) for each in reach))


def _widening(rounds: int) -> float:
    normal = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return critical_value(CONFIDENCE, rounds // ROUNDS_PER_BLOCK - 1) / normal
