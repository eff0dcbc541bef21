"""Has a ratio changed? Pairs made by hand and by chance."""

import math
import random

import msgspec
import pytest

from hasten.records.verdict import Comparison
from hasten.stats.change import MARGIN, change_since
from specimens import make_comparison


def pair(log_ratio: float, reach: float = 0.002) -> Comparison:
    ratio = math.exp(log_ratio)
    return msgspec.structs.replace(
        make_comparison(),
        ratio=ratio,
        low=ratio * math.exp(-reach),
        high=ratio * math.exp(reach),
    )


def session(middle: float, spread: float, pairs: int, chance: random.Random) -> list[Comparison]:
    return [pair(middle + chance.gauss(0, spread), spread) for _ in range(pairs)]


STEADY = [pair(0.7 + each) for each in (-0.004, -0.002, 0.0, 0.001, 0.002, 0.003)]


@pytest.mark.parametrize(
    ("times", "decision"), [(1.1, "slower"), (1.0, "same"), (0.9, "faster"), (0.98, "same")]
)
def test_a_clear_change_is_told_by_its_size(times: float, decision: str) -> None:
    now = [pair(0.7 - math.log(times) + each) for each in (-0.002, 0.0, 0.002)]
    change = change_since(STEADY, now)
    assert change.decision == decision
    assert change.low < times < change.high
    assert change.times == pytest.approx(times, rel=1e-3)


def test_pairs_that_disagree_decide_nothing() -> None:
    now = [pair(0.7 - math.log(1.1) + each) for each in (-0.08, 0.0, 0.08)]
    assert change_since(STEADY, now).decision == "undecided"


def test_pairs_that_agree_by_chance_are_no_surer_than_their_rounds() -> None:
    vague = [pair(0.7 - math.log(1.1), reach=0.25)] * 3
    assert change_since(STEADY, vague).decision == "undecided"
    sure = [pair(0.7 - math.log(1.1), reach=0.01)] * 3
    assert change_since(STEADY, sure).decision == "slower"


def test_a_slowdown_within_the_margin_is_never_called_a_regression() -> None:
    now = [pair(0.7 - math.log(1 + MARGIN) + 1e-4)] * 3
    assert change_since([pair(0.7, 1e-6)] * 6, now).decision != "slower"


@pytest.mark.parametrize(
    ("then", "today"), [(0.003, 0.003), (0.01, 0.01), (0.02, 0.02), (0.003, 0.02), (0.003, 0.06)]
)
def test_simulated_sessions_are_judged_rightly(then: float, today: float) -> None:
    """Of 400 each, looked at after 3, 4 and 5 pairs: hardly any alarm without a change, and of
    those that are 10 % slower hardly one is missed where pairs agree to 2 %."""
    chance = random.Random(3)
    alarms = missed = 0
    for _ in range(400):
        before = session(0.7, then, 6, chance)
        alarms += judged(before, 0.7, today, chance) == "slower"
        missed += judged(before, 0.7 - math.log(1.1), today, chance) != "slower"
    assert alarms <= 4
    if today <= 0.02:
        assert missed <= 8


def judged(before: list[Comparison], middle: float, spread: float, chance: random.Random) -> str:
    now = session(middle, spread, 2, chance)
    for _ in range(3):
        now += session(middle, spread, 1, chance)
        decision = change_since(before, now).decision
        if decision != "undecided":
            return decision
    return "undecided"


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    chance = random.Random(4)
    held = 0
    for _ in range(1000):
        before, now = session(0.7, 0.01, 6, chance), session(0.7, 0.01, 3, chance)
        change = change_since(before, now)
        held += change.low < 1 < change.high
    assert held >= 940
