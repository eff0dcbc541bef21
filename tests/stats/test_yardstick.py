"""The perturbation yardstick: what passes for rounding, and what must not."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.stats.yardstick import ALLOWED, EPSILON, TRUSTED, Norms, below_floor, excess

SIZE = {"embedding": 10.0, "layer.weight": 3.0, "layer.bias": 0.1}
MOVED = {name: 1e-4 * size for name, size in SIZE.items()}
NOTHING = dict.fromkeys(SIZE, 0.0)


def norms(
    difference: Mapping[str, float],
    *,
    size: Mapping[str, float] = SIZE,
    sensitivity: Mapping[str, float] = MOVED,
    resolution: Mapping[str, float] | None = None,
) -> Norms:
    return Norms(
        size=size,
        sensitivity=sensitivity,
        difference=difference,
        resolution=resolution or dict.fromkeys(size, 0.0),
    )


@pytest.mark.parametrize(
    ("ours", "baselines", "share"),
    [
        ({"layer.bias": 0.01}, {"layer.bias": 0.02}, 1.0),
        ({"layer.bias": 0.02}, {"layer.bias": 0.02}, 1.0),
        ({"layer.bias": 0.03}, {"layer.bias": 0.02}, None),
        ({"layer.bias": math.nan}, {"layer.bias": 0.02}, None),
        ({"embedding": 0.0}, {"embedding": 1.0}, None),
        ({}, {}, None),
    ],
)
def test_a_parameter_that_is_no_further_from_the_truth_is_excused_and_no_other(
    ours: Mapping[str, float], baselines: Mapping[str, float], share: float | None
) -> None:
    wrong = norms({**NOTHING, "layer.bias": 0.05})
    used = excess(replace(wrong, candidate_error=ours, baseline_error=baselines))
    if share is None:
        assert used.excused == ()
        assert used.share > 1
    else:
        assert (used.share, used.excused) == (share, ("layer.bias",))


def test_what_the_baseline_is_off_from_the_truth_is_allowed_as_rounding_is() -> None:
    size, caused = {"only": 1.0}, 0.5 + EPSILON
    for error, counted in ((1.0, 1.0), (3.0, 3.0), (1e6, TRUSTED * caused)):
        limit = ALLOWED * (caused + counted)
        given_truth = replace(
            norms({"only": limit}, size=size, sensitivity={"only": 0.5}),
            baseline_error={"only": error},
            candidate_error={"only": 2e6},
        )
        assert excess(given_truth).share == pytest.approx(1.0)


def test_a_truth_that_is_not_a_number_allows_nothing() -> None:
    off = replace(norms(MOVED), baseline_error=dict.fromkeys(SIZE, math.nan))
    assert excess(off).share == math.inf


def test_equal_gradients_use_nothing_of_what_is_allowed() -> None:
    used = excess(norms(NOTHING))
    assert used.share == 0.0


def test_equal_gradients_of_a_model_that_nothing_moves_are_equal() -> None:
    assert excess(norms(NOTHING, size=NOTHING, sensitivity=NOTHING)).share == 0.0


def test_any_difference_in_a_model_that_nothing_moves_is_too_much() -> None:
    tiny = {**NOTHING, "layer.bias": 1e-30}
    assert excess(norms(tiny, size=NOTHING, sensitivity=NOTHING)).share == math.inf


def test_what_a_perturbation_of_the_weights_causes_is_allowed() -> None:
    assert excess(norms(MOVED)).share < 1
    assert excess(norms({name: 2 * moved for name, moved in MOVED.items()})).share <= 1


def test_twice_the_perturbation_and_the_floor_is_the_exact_limit() -> None:
    size = {"only": 1.0}
    limit = ALLOWED * (0.5 + EPSILON + 0.25)
    for difference, share in ((limit, 1.0), (2 * limit, 2.0)):
        used = excess(
            norms(
                {"only": difference},
                size=size,
                sensitivity={"only": 0.5},
                resolution={"only": 0.25},
            )
        )
        assert used.share == pytest.approx(share)


def test_gradients_scaled_by_one_percent_are_too_much() -> None:
    used = excess(norms({name: 0.01 * size for name, size in SIZE.items()}))
    assert used.share > 10


def test_a_gradient_that_is_zero_but_for_rounding_is_tolerated_by_the_floor() -> None:
    # A bias before BatchNorm: both sides hold rounding only, of which one half is another.
    size = {**SIZE, "bias before norm": 1e-6}
    sensitivity = {**MOVED, "bias before norm": 1e-7}
    difference = {**NOTHING, "bias before norm": 1e-6}
    assert excess(norms(difference, size=size, sensitivity=sensitivity)).share < 1


def test_the_floor_hides_no_gradient_that_matters() -> None:
    difference = {**NOTHING, "layer.bias": 0.01 * SIZE["layer.bias"]}
    assert excess(norms(difference)).share > 1


def test_a_frozen_parameter_is_caught_though_the_whole_norm_hides_it() -> None:
    size = {"embedding": 1000.0, "frozen": 0.05}
    sensitivity = {"embedding": 10.0, "frozen": 1e-4}
    used = excess(norms({"embedding": 0.0, "frozen": 0.05}, size=size, sensitivity=sensitivity))
    assert used.share > 1
    assert used.parameter == "frozen"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["difference", "sensitivity", "size", "resolution"])
def test_what_is_not_finite_fails(bad: float, where: str) -> None:
    """Also an allowance without bounds, which would let anything pass."""
    values = {
        "difference": MOVED,
        "sensitivity": MOVED,
        "size": SIZE,
        "resolution": NOTHING,
    }
    values[where] = {**values[where], "layer.bias": bad}
    assert excess(Norms(**values)).share == math.inf


def test_a_difference_without_bounds_is_not_excused_by_a_baseline_without_bounds() -> None:
    endless = {**MOVED, "layer.bias": math.inf}
    used = excess(norms(endless, sensitivity=endless))
    assert used.share == math.inf


@settings(deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_the_scale_of_the_loss_does_not_matter(scale: float, share: float) -> None:
    def scaled(values: Mapping[str, float]) -> dict[str, float]:
        return {name: scale * value for name, value in values.items()}

    difference = {name: share * value for name, value in MOVED.items()}
    one = excess(norms(difference))
    other = excess(norms(scaled(difference), size=scaled(SIZE), sensitivity=scaled(MOVED)))
    assert other.share == pytest.approx(one.share, rel=1e-9)


@settings(deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(1.01, 10))
def test_a_larger_difference_never_uses_less(share: float, more: float) -> None:
    small = excess(norms({name: share * value for name, value in MOVED.items()}))
    large = excess(norms({name: more * share * value for name, value in MOVED.items()}))
    assert large.share > small.share


def test_a_gradient_that_is_nothing_but_rounding_is_told_from_a_small_one() -> None:
    size = {"weight": 3.0, "small": 1e-3, "noise": 1e-6}
    assert below_floor(size) == {"noise"}
    assert below_floor({}) == set()
