"""Student's t distribution, for intervals whose spread was learnt from few values."""

import math


def critical_value(confidence: float, degrees: int) -> float:
    """How many standard errors to either side hold ``confidence``, with so many degrees of freedom.

    Method: bisection of the distribution function, which is a finite sum for whole degrees.
    """
    if not 0 < confidence < 1 or degrees < 1:
        raise ValueError(f"no value for confidence {confidence} and {degrees} degrees of freedom")
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        angle = (low + high) / 2
        low, high = (angle, high) if _held(angle, degrees) < confidence else (low, angle)
    return math.sqrt(degrees) * math.tan(low)


def _held(angle: float, degrees: int) -> float:
    """Probability within tan(angle) * sqrt(degrees) of zero (Abramowitz and Stegun, 26.7.3-4)."""
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for step in range(1, (degrees - odd) // 2 + 1):
        total += term
        factor = 2 * step / (2 * step + 1) if odd else (2 * step - 1) / (2 * step)
        term *= factor * math.cos(angle) ** 2
    held = math.sin(angle) * total
    return 2 / math.pi * (angle + held) if odd else held
