"""The error rates of the test are simulated, with all looks, from a fixed seed."""

import numpy as np
import pytest

from hasten.stats.equivalence import ERROR, FLOOR, LOOKS, judge

TRIALS = 1000


def _outcomes(
    shift: float, noise: float, *, mean: float = 2.0, spread: float = 0.1, heavy: bool = False
) -> dict[str, float]:
    """Shares of sequential tests that ended so; ``shift`` and ``noise`` of d, in spreads."""
    rng = np.random.default_rng(5)
    ends = {"equivalent": 0, "different": 0, "undecided": 0}
    for _ in range(TRIALS):
        draw = rng.standard_t(5, (2, LOOKS[-1])) / np.sqrt(5 / 3) if heavy else None
        if draw is None:
            draw = rng.standard_normal((2, LOOKS[-1]))
        naive = mean + spread * draw[0]
        plan = naive + spread * (shift + noise * draw[1])
        likeness = "undecided"
        for look in LOOKS:
            likeness = judge(naive[:look].tolist(), plan[:look].tolist()).likeness
            if likeness != "undecided":
                break
        ends[likeness] += 1
    return {end: count / TRIALS for end, count in ends.items()}


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("shift", [1.0, -1.0, 1.5])
def test_a_training_that_differs_by_the_margin_is_not_called_equivalent(
    shift: float, noise: float
) -> None:
    assert _outcomes(shift, noise)["equivalent"] <= ERROR


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_a_training_within_the_margin_is_not_called_different(shift: float, noise: float) -> None:
    assert _outcomes(shift, noise)["different"] <= ERROR


def test_heavy_tails_are_borne() -> None:
    assert _outcomes(1.0, 0.3, heavy=True)["equivalent"] <= ERROR
    assert _outcomes(0.0, 0.3, heavy=True)["different"] <= ERROR


@pytest.mark.parametrize(("noise", "power"), [(0.1, 0.99), (0.5, 0.99), (1.0, 0.75)])
def test_equal_trainings_are_called_so(noise: float, power: float) -> None:
    assert _outcomes(0.0, noise)["equivalent"] >= power


def test_what_is_far_off_is_called_different() -> None:
    assert _outcomes(5.0, 0.5)["different"] >= 0.95


def test_the_floor_holds_where_seeds_differ_by_nothing() -> None:
    steady = [2.0] * LOOKS[0]
    assert judge(steady, [2.0 + 0.9 * FLOOR] * LOOKS[0]).likeness == "equivalent"
    assert judge(steady, [2.0 + 3 * FLOOR] * LOOKS[0]).likeness == "different"
    assert judge([0.0] * 4, [0.0] * 4).likeness == "equivalent"


def test_the_interval_and_its_margin_are_told() -> None:
    judged = judge([1.0, 1.1, 0.9, 1.05], [1.01, 1.11, 0.92, 1.05])
    assert judged.low < judged.difference < judged.high
    assert judged.difference == pytest.approx(0.01)
    assert 0 < judged.margin < judged.spread


def test_unpaired_few_or_infinite_values_are_refused() -> None:
    for naive, plan in (([1.0] * 4, [1.0] * 5), ([1.0], [1.0])):
        with pytest.raises(ValueError, match="pairs of 4"):
            judge(naive, plan)
    with pytest.raises(ValueError, match="finite"):
        judge([1.0] * 4, [1.0, 1.0, 1.0, float("nan")])
