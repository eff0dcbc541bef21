"""The chi-square distribution, for intervals of a spread that was learnt from few values."""

import math


def quantile(probability: float, degrees: int) -> float:
    """Below this lies ``probability`` of all sums of so many squared normal values.

    Method: bisection of the distribution function, which is a finite sum for whole degrees.
    """
    if not 0 < probability < 1 or degrees < 1:
        raise ValueError(f"no value for probability {probability} and {degrees} degrees of freedom")
    low, high = 0.0, 1.0
    while _held(high, degrees) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _held(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def _held(value: float, degrees: int) -> float:
    """Probability up to ``value`` (Abramowitz and Stegun, 26.4.4-5)."""
    half = value / 2
    odd = degrees % 2
    above = math.erfc(math.sqrt(half)) if odd else math.exp(-half)
    place = 0.5 if odd else 1.0
    while place < degrees / 2:
        log = place * math.log(half) - half - math.lgamma(place + 1) if half else -math.inf
        above += math.exp(log)
        place += 1
    return 1 - above
