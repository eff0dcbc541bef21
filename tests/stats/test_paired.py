"""The paired comparison: exact where it can be, and its error rates on simulated machines."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.records.verdict import Decision
from hasten.stats.paired import (
    CONFIDENCE,
    MARGIN,
    MINIMUM_ROUNDS,
    Interval,
    decide,
    pooled,
    ratio_interval,
)

LOOKS = (33, 50, 66, 100)
"""Rounds at which a sequence is looked at; the first look that decides ends it."""
LINGERS = 0.3
"""Correlation of an arm's noise in one round with that in the next."""

seconds = st.floats(1e-6, 1e3)
arms = st.integers(MINIMUM_ROUNDS, 60).flatmap(
    lambda rounds: st.tuples(
        st.lists(seconds, min_size=rounds, max_size=rounds),
        st.lists(seconds, min_size=rounds, max_size=rounds),
    )
)


def noisy_arms(
    seed: int, *, slowdown: float = 1.0, offset: float = 0.003
) -> tuple[np.ndarray, np.ndarray]:
    """Two arms on a busy machine: they share its drift, and each has heavy-tailed noise that
    lingers from round to round, bursts of foreign load, and an offset for life."""
    draw = np.random.default_rng(seed)
    rounds = LOOKS[-1]
    drift = np.cumsum(draw.normal(0, 0.01, rounds)) + draw.normal(0, 0.3) * np.linspace(
        0, 1, rounds
    )
    a, b = (drift + _lingering(draw, rounds) + _bursts(draw, rounds) for _ in range(2))
    return np.exp(a + draw.normal(0, offset)), slowdown * np.exp(b)


def _lingering(draw: np.random.Generator, rounds: int) -> np.ndarray:
    shocks = 0.02 * draw.standard_t(3, rounds)
    values = np.empty(rounds)
    last = shocks[0]
    for index, shock in enumerate(shocks):
        last = values[index] = LINGERS * last + math.sqrt(1 - LINGERS**2) * shock
    return values


def _bursts(draw: np.random.Generator, rounds: int) -> np.ndarray:
    values = np.zeros(rounds)
    for start in np.flatnonzero(draw.random(rounds) < 0.03):
        stop = start + draw.integers(1, 6)
        values[start:stop] = draw.exponential(0.5, len(values[start:stop]))
    return values


def decide_with_looks(a_s: np.ndarray, b_s: np.ndarray) -> Decision:
    decision: Decision = "undecided"
    for rounds in LOOKS:
        decision = decide(ratio_interval(a_s[:rounds], b_s[:rounds]))
        if decision != "undecided":
            break
    return decision


def test_rounds_that_all_agree_give_an_interval_without_width() -> None:
    interval = ratio_interval([3.0] * 20, [2.0] * 20)
    assert interval == Interval(*[pytest.approx(1.5, rel=1e-12)] * 3)


def test_the_ratio_is_the_median_of_the_pairs_and_not_of_the_arms() -> None:
    a_s = [1.0, 10.0, 100.0] * 7
    b_s = [1.0, 5.0, 25.0] * 7
    assert ratio_interval(a_s, b_s).ratio == pytest.approx(2.0, rel=1e-12)


def test_with_an_even_number_of_rounds_the_middle_is_geometric() -> None:
    interval = ratio_interval([2.0] * 10 + [8.0] * 10, [1.0] * 20)
    assert interval.ratio == pytest.approx(4.0, rel=1e-12)


def test_two_values_by_turns_give_the_interval_between_them_widened_for_few_blocks() -> None:
    # In logs to base 2 the values are 0 and 2 and the median is 1. A block of five holds two or
    # three of each, so resampled medians are 0, 1 or 2 and the quantiles are 0 and 2: a reach of
    # 1, and 1 is then widened as t with 3 degrees of freedom is wider than the normal: 2.2676.
    interval = ratio_interval([1.0, 4.0] * 10, [1.0] * 20)
    assert interval.ratio == pytest.approx(2.0, rel=1e-12)
    assert math.log2(interval.low) == pytest.approx(1 - 5.840909 / 2.575829, rel=1e-5)
    assert math.log2(interval.high) == pytest.approx(1 + 5.840909 / 2.575829, rel=1e-5)


def test_rounds_that_lie_close_together_in_time_are_taken_to_be_alike() -> None:
    """Twenty in a second, of a ratio that wanders about 1 with a memory of a fifth of a second."""
    draw, kept, rounds, missed = np.random.default_rng(3), math.exp(-0.25), 320, [0, 0]
    for _ in range(100):
        wandering = [draw.normal()]
        for _ in range(rounds - 1):
            wandering.append(kept * wandering[-1] + math.sqrt(1 - kept**2) * draw.normal())
        a_s = np.exp(0.05 * np.array(wandering))
        for number, elapsed_s in enumerate((rounds / 20, None)):
            interval = ratio_interval(a_s, np.ones(rounds), elapsed_s=elapsed_s)
            missed[number] += not interval.low < 1 < interval.high
    assert missed[0] <= 4
    assert missed[1] > missed[0] + 2


def test_one_sample_per_arm_is_not_proof() -> None:
    interval = ratio_interval([2.0], [1.0])
    assert interval == Interval(2.0, 0.0, math.inf)
    assert decide(interval) == "undecided"


def test_fewer_rounds_than_the_minimum_prove_nothing() -> None:
    few = MINIMUM_ROUNDS - 1
    assert decide(ratio_interval([2.0] * few, [1.0] * few)) == "undecided"
    assert decide(ratio_interval([2.0] * MINIMUM_ROUNDS, [1.0] * MINIMUM_ROUNDS)) == "faster"


def test_no_rounds_at_all_prove_nothing() -> None:
    assert ratio_interval([], []) == Interval(1.0, 0.0, math.inf)


def test_arms_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="have 20 and 21 rounds"):
        ratio_interval([1.0] * 20, [1.0] * 21)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("arm", ["a", "b", "both"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_block_that_took_no_finite_time_is_refused(bad: float, arm: str) -> None:
    good, spoilt = [1.0] * 20, [1.0] * 19 + [bad]
    with pytest.raises(ValueError, match="no finite"):
        ratio_interval(spoilt if arm != "b" else good, spoilt if arm != "a" else good)


BEYOND, WITHIN = 1 + MARGIN, 1 / (1 + MARGIN)


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (math.nextafter(BEYOND, 2), 2.0, "faster"),
        (BEYOND, 2.0, "undecided"),
        (0.5, math.nextafter(WITHIN, 0), "slower"),
        (0.5, WITHIN, "undecided"),
        (math.nextafter(WITHIN, 2), math.nextafter(BEYOND, 0), "same"),
        (WITHIN, 1.0, "undecided"),
        (1.0, BEYOND, "undecided"),
        (0.5, 2.0, "undecided"),
        (0.0, math.inf, "undecided"),
        (math.nan, math.nan, "undecided"),
    ],
)
def test_a_difference_is_claimed_only_beyond_the_margin(
    low: float, high: float, decision: Decision
) -> None:
    assert decide(Interval(1.0, low, high)) == decision


@pytest.mark.parametrize(("offset", "reach"), [(0.0, 1.0), (0.02, math.sqrt(2))])
def test_pairs_of_processes_that_agree_are_surer_together(offset: float, reach: float) -> None:
    one = Interval(1.03, 1.03 / 1.02, 1.03 * 1.02)
    both = pooled([one, one], offset)
    expected = reach * math.log(1.02) / math.sqrt(2)
    assert both.ratio == pytest.approx(1.03)
    assert math.log(both.high / both.ratio) == pytest.approx(expected)
    assert math.log(both.ratio / both.low) == pytest.approx(expected)


def test_two_pairs_together_cover_the_truth_as_often_as_they_say() -> None:
    """Each with noise of its own, and with an offset that reaches as far as is said."""
    draw = np.random.default_rng(0)
    z, offset = 2.576, 0.01
    missed = 0
    for _ in range(4000):
        noise = draw.uniform(0.001, 0.01, 2)
        logs = draw.normal(0, noise) + draw.normal(0, math.log1p(offset) / z, 2)
        ends = np.exp([logs, logs - z * noise, logs + z * noise]).T.tolist()
        pairs = [Interval(*each) for each in ends]
        found = pooled(pairs, offset)
        missed += not found.low <= 1 <= found.high
    assert missed <= 0.01 * 4000 + 3 * math.sqrt(0.01 * 4000)


def test_the_surer_pair_weighs_more_but_for_what_processes_keep() -> None:
    sure, unsure = Interval(1.03, 1.03 / 1.01, 1.03 * 1.01), Interval(1.05, 1.05 / 1.1, 1.05 * 1.1)
    both = pooled([sure, unsure], offset=0.0)
    assert both.ratio == pytest.approx(1.03**0.75 * 1.05**0.25), "three times as much, at most"
    assert decide(sure) == "faster"
    assert decide(both) == "undecided", "the surer one does not carry the claim alone"
    alike = pooled([sure, unsure], offset=10.0)
    assert alike.ratio == pytest.approx(math.sqrt(1.03 * 1.05), abs=0.0005)


def test_pairs_that_disagree_are_covered_both() -> None:
    both = pooled([Interval(1.00, 0.999, 1.001), Interval(1.21, 1.209, 1.211)], offset=0.01)
    assert both.ratio == pytest.approx(1.1, abs=0.001)
    assert (both.low, both.high) == pytest.approx((1.0, 1.21))


def test_one_pair_is_what_it_is_and_one_without_an_interval_proves_nothing() -> None:
    one, empty = Interval(2.0, 1.9, 2.1), Interval(2.0, 0.0, math.inf)
    assert pooled([one], offset=0.01) is one
    assert decide(pooled([one, empty], offset=0.01)) == "undecided"


def test_the_margin_can_be_another() -> None:
    interval = Interval(1.05, 1.02, 1.08)
    assert decide(interval) == "faster"
    assert decide(interval, margin=0.02) == "undecided"
    assert decide(interval, margin=0.1) == "same"


@settings(max_examples=40, deadline=None)
@given(arms)
def test_swapping_the_arms_inverts_the_interval(arms: tuple[list[float], list[float]]) -> None:
    a_s, b_s = arms
    forth, back = ratio_interval(a_s, b_s), ratio_interval(b_s, a_s)
    assert back.ratio == pytest.approx(1 / forth.ratio, rel=1e-9)
    assert back.low == pytest.approx(1 / forth.high, rel=1e-9)
    assert back.high == pytest.approx(1 / forth.low, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(arms, st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(
    arms: tuple[list[float], list[float]], scale: float
) -> None:
    a_s, b_s = arms
    one = ratio_interval(a_s, b_s)
    other = ratio_interval([scale * each for each in a_s], [scale * each for each in b_s])
    assert other.ratio == pytest.approx(one.ratio, rel=1e-9)
    assert other.low == pytest.approx(one.low, rel=1e-9)
    assert other.high == pytest.approx(one.high, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(arms)
def test_the_interval_holds_its_ratio_and_grows_with_the_confidence(
    arms: tuple[list[float], list[float]],
) -> None:
    a_s, b_s = arms
    interval = ratio_interval(a_s, b_s)
    surer = ratio_interval(a_s, b_s, confidence=0.999)
    assert interval.low <= interval.ratio * (1 + 1e-12)
    assert interval.ratio <= interval.high * (1 + 1e-12)
    assert surer.low <= interval.low
    assert surer.high >= interval.high


def test_the_same_rounds_and_seed_give_the_same_interval() -> None:
    a_s, b_s = noisy_arms(0)
    assert ratio_interval(a_s, b_s) == ratio_interval(a_s, b_s)
    assert ratio_interval(a_s, b_s) != ratio_interval(a_s, b_s, seed=1)


def test_a_burst_over_few_rounds_hardly_moves_the_interval() -> None:
    quiet = np.exp(np.random.default_rng(0).normal(0, 0.01, 100))
    disturbed = quiet.copy()
    disturbed[40:46] *= 20
    calm, struck = ratio_interval(quiet, np.ones(100)), ratio_interval(disturbed, np.ones(100))
    assert struck.ratio == pytest.approx(calm.ratio, rel=0.005)
    assert struck.high < 1 + MARGIN


def test_an_interval_from_independent_rounds_covers_the_truth_as_often_as_it_says() -> None:
    sequences, missed = 300, 0
    for seed in range(sequences):
        draw = np.random.default_rng(seed)
        interval = ratio_interval(np.exp(0.05 * draw.standard_t(3, 30)), np.ones(30))
        missed += not interval.low <= 1 <= interval.high
    assert missed / sequences <= 1 - CONFIDENCE


def test_identical_arms_on_a_busy_machine_are_called_different_in_at_most_one_in_a_hundred() -> (
    None
):
    sequences = 300
    decisions = [decide_with_looks(*noisy_arms(seed)) for seed in range(sequences)]
    false = decisions.count("faster") + decisions.count("slower")
    assert false / sequences <= 0.01


def test_a_slowdown_of_five_percent_is_found_on_a_busy_machine() -> None:
    sequences = 200
    decisions = [decide_with_looks(*noisy_arms(s, slowdown=1.05)) for s in range(sequences)]
    assert decisions.count("slower") / sequences >= 0.9
    assert decisions.count("faster") == 0


def test_identical_arms_on_a_quiet_machine_are_called_the_same() -> None:
    draw = np.random.default_rng(0)
    a_s, b_s = np.exp(draw.normal(0, 0.01, (2, LOOKS[-1])))
    assert decide_with_looks(a_s, b_s) == "same"
