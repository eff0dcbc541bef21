"""The error rates of the questions about dropout are simulated from a fixed seed."""

import numpy as np
import pytest

from hasten.stats.randomness import (
    ERROR,
    LOOKS,
    MEAN_MARGIN,
    SPREAD_MARGIN,
    chance_of_rate,
    chance_of_repeats,
    compare_distributions,
    is_constant,
    is_one_stream,
)

TRIALS = 1000


def _compare(shift: float, factor: float, quantities: int = 4, trials: int = TRIALS) -> list[str]:
    """How sequential comparisons of two streams ended."""
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(trials):
        draw = rng.standard_normal((2, quantities, LOOKS[-1]))
        one, other = 5 + draw[0], 5 + shift + factor * draw[1]
        likeness = "undecided"
        for look in LOOKS:
            sides = [{str(i): row[:look].tolist() for i, row in enumerate(x)} for x in (one, other)]
            likeness = compare_distributions(*sides)
            if likeness != "undecided":
                break
        ends.append(likeness)
    return ends


def test_equal_distributions_are_the_same_and_never_another() -> None:
    ends = _compare(0.0, 1.0)
    assert ends.count("other") <= max(2 * ERROR * TRIALS, 3)
    assert ends.count("same") >= 0.99 * TRIALS


@pytest.mark.parametrize(("shift", "factor"), [(MEAN_MARGIN, 1.0), (0.0, SPREAD_MARGIN)])
def test_a_shift_by_the_margin_is_hardly_ever_the_same(shift: float, factor: float) -> None:
    ends = _compare(shift, factor, quantities=1)
    assert ends.count("same") <= 5  # one is expected


@pytest.mark.parametrize(("shift", "factor"), [(1.0, 1.0), (0.0, 2.2)])
def test_what_is_far_off_is_another(shift: float, factor: float) -> None:
    assert set(_compare(shift, factor, trials=50)) == {"other"}


@pytest.mark.parametrize("rate", [0.5, 0.9])
@pytest.mark.parametrize("seen", [40, 5000])
def test_a_right_rate_is_hardly_ever_doubted(rate: float, seen: int) -> None:
    kept = np.random.default_rng(1).binomial(seen, rate, 20_000)
    doubted = sum(chance_of_rate(int(each), seen, rate) < ERROR for each in kept)
    assert doubted <= ERROR * len(kept)


def test_a_wrong_rate_is_doubted() -> None:
    assert chance_of_rate(8000, 10_000, 0.9) < 1e-9
    assert chance_of_rate(10_000, 10_000, 0.9) < 1e-9
    assert chance_of_rate(0, 10_000, 0.9) < 1e-9


def test_masks_that_come_again_are_doubted_where_chance_cannot_repeat_them() -> None:
    assert chance_of_repeats([7] * 16, seen=512, rate=0.9) < 1e-9
    assert chance_of_repeats([1, 2] * 8, seen=512, rate=0.5) < 1e-9
    assert chance_of_repeats(list(range(16)), seen=512, rate=0.9) == 1.0


def test_few_elements_repeat_a_mask_by_chance() -> None:
    rng = np.random.default_rng(2)
    doubted = 0
    for _ in range(5000):
        masks = rng.random((16, 6)) < 0.5
        prints = (masks * 2 ** np.arange(6)).sum(axis=1).tolist()
        doubted += chance_of_repeats(prints, seen=6, rate=0.5) < ERROR
    assert doubted <= ERROR * 5000


def test_one_stream_is_told_from_two() -> None:
    rng = np.random.default_rng(4)
    one = {"loss": rng.standard_normal(16).tolist()}
    rounded = {"loss": [each * (1 + 1e-6) for each in one["loss"]]}
    assert is_one_stream(one, rounded)
    assert not is_one_stream(one, {"loss": rng.standard_normal(16).tolist()})


def test_rounding_is_no_chance() -> None:
    assert is_constant([1.0, 1.0 + 1e-8, 1.0])
    assert not is_constant([1.0, 1.001, 1.0])
    assert compare_distributions({"loss": [1.0, 2.0]}, {"loss": [1.5, 1.5]}) == "other"
