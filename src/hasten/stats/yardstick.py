"""Are two gradients the same but for rounding? The baseline's own sensitivity decides.

A fixed tolerance cannot: a right channels-last network differs by 3e-3 from a right contiguous
one, and a wrong gradient can differ by less. So the baseline's weights are perturbed by a tiny
relative amount, about what a few reordered fp32 sums amount to, and it is measured how far that
moves its gradients and updates. Where the truth is known, from fp64, what the baseline itself is
off from it is rounding too: few perturbations of a small parameter may happen to move it by little.
A candidate may differ by twice the sum, for each parameter.

Each parameter also gets a floor, its share of the perturbation of the whole norm: a gradient that
is zero but for rounding, as of a bias before BatchNorm, has nothing else to be measured against.

A parameter that differs by more is excused where the truth is known and the candidate is no further
from it than the baseline.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

ALLOWED = 2.0
EPSILON = 1e-5
"""Relative perturbation of the weights that stands for reordered fp32 sums."""

TRUSTED = 10.0
"""How many times what a perturbation causes the baseline's own error may count for. One that is
further from the truth is so for another reason than rounding."""


@dataclass(frozen=True)
class Norms:
    """Of one quantity (gradients or updates of one step), by parameter name."""

    size: Mapping[str, float]
    """Norm of the baseline's."""
    sensitivity: Mapping[str, float]
    """Norm of the largest change that a perturbation of the weights caused."""
    difference: Mapping[str, float]
    """Norm of candidate minus baseline."""
    resolution: Mapping[str, float]
    """Norm below which a difference is the rounding of the stored numbers themselves."""
    epsilon: float = EPSILON
    baseline_error: Mapping[str, float] = field(default_factory=dict)
    candidate_error: Mapping[str, float] = field(default_factory=dict)
    """Norms of what either is off from the truth, where that is known."""


@dataclass(frozen=True)
class Excess:
    """How much of the allowed difference is used; above 1 the candidate is another training."""

    share: float
    parameter: str
    """The one that uses most."""
    excused: tuple[str, ...] = ()
    """Parameters that differ by more than is allowed, towards the truth."""


def excess(norms: Norms) -> Excess:
    """Judged for each parameter alone, which bounds all of them together too."""
    floor = _floor(norms.size, norms.epsilon)
    shares = {
        name: _share(norms.difference[name], ALLOWED * _rounding(norms, name, floor))
        for name in norms.size
    }
    excused = tuple(name for name in shares if shares[name] > 1 and _is_no_further(norms, name))
    shares.update(dict.fromkeys(excused, 1.0))
    worst = max(shares, key=lambda name: shares[name], default="")
    return Excess(share=shares.get(worst, 0.0), parameter=worst, excused=excused)


def below_floor(size: Mapping[str, float], epsilon: float = EPSILON) -> set[str]:
    """Parameters whose share of the whole is nothing but rounding."""
    floor = _floor(size, epsilon)
    return {name for name, value in size.items() if value <= floor}


def _rounding(norms: Norms, name: str, floor: float) -> float:
    caused = norms.sensitivity[name] + floor + norms.resolution[name]
    return caused + min(norms.baseline_error.get(name, 0.0), TRUSTED * caused)


def _is_no_further(norms: Norms, name: str) -> bool:
    if name not in norms.baseline_error or name not in norms.candidate_error:
        return False
    return norms.candidate_error[name] <= norms.baseline_error[name]


def _floor(size: Mapping[str, float], epsilon: float) -> float:
    return epsilon * _norm(size) / math.sqrt(max(len(size), 1))


def _share(difference: float, allowed: float) -> float:
    if not (math.isfinite(difference) and math.isfinite(allowed)):
        return math.inf  # an allowance without bounds would let anything pass
    if difference == 0:
        return 0.0
    return difference / allowed if allowed else math.inf


def _norm(norms: Mapping[str, float]) -> float:
    return math.sqrt(sum(value * value for value in norms.values()))
