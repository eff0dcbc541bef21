"""What is told of a tuning while it goes on, by a clock that the test turns."""

import itertools

import pytest
from msgspec.structs import replace

from hasten.records.plan import Rung
from hasten.records.progress import Doing
from hasten.records.trial import Offer
from hasten.records.verdict import Control
from hasten.stats.equivalence import LOOKS
from hasten.tune import course as module
from hasten.tune.confirm import CONTROL_S, FIRST_S, MOST_PAIRS, pair_in_words
from hasten.tune.course import PROFILE_S, PROOF_S, Course
from hasten.tune.curves import CURVES_S
from hasten.tune.parity import seed_in_words
from specimens import make_comparison

SEARCH_S = 600.0


def control_of(last_s: float) -> Control:
    """Whose last run took so long, and the others next to nothing."""
    runs = (make_comparison(1.0), make_comparison(1.1), make_comparison(1.2))
    return Control(runs=(*runs[:2], replace(runs[2], elapsed_s=last_s)))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def told() -> list[Doing]:
    return []


@pytest.fixture
def course(clock: Clock, told: list[Doing]) -> Course:
    return Course(told.append)


def offer(technique: str) -> Offer:
    return Offer(
        technique=technique,
        rung=Rung.BITWISE,
        answers=(),
        parts=({},),
        changes_data=False,
        slow_to_prepare=False,
        refusal=None,
    )


def left(course: Course) -> float:
    found = course.left_s()
    assert found is not None
    return found


def test_nothing_is_said_of_the_time_before_anything_is_foreseen(
    course: Course, told: list[Doing]
) -> None:
    course.tell("building it")
    assert told == [Doing(phase="measuring", what="building it")]


def test_the_best_stays_until_there_is_a_better_one(course: Course, told: list[Doing]) -> None:
    course.enter("searching")
    course.tell("trying a", "1.50x")
    course.tell("measuring")
    course.tell("trying b", "1.70x")
    assert [each.best for each in told] == ["1.50x", "1.50x", "1.70x"]


def test_a_search_is_foreseen_with_all_that_may_come_after_it(course: Course, clock: Clock) -> None:
    course.foresee_search([offer("loader")], SEARCH_S)
    whole = left(course)
    assert whole > PROFILE_S + SEARCH_S + PROOF_S + FIRST_S + CURVES_S
    clock.now += 10
    assert left(course) == whole - 10
    course.enter("searching")
    assert left(course) == whole - PROFILE_S
    clock.now += SEARCH_S + 50  # the last trial took longer
    assert left(course) == whole - PROFILE_S - SEARCH_S


def test_a_plan_in_another_precision_takes_the_time_of_its_trainings(course: Course) -> None:
    course.foresee(2, 0.0)
    precise = left(course)
    course.foresee(2, SEARCH_S)
    assert left(course) == precise + SEARCH_S


def test_what_is_left_falls_from_phase_to_phase(course: Course, clock: Clock) -> None:
    course.foresee_search([offer(each) for each in "abcd"], SEARCH_S)
    foreseen = [left(course)]
    for phase, plan in (
        ("searching", None),
        ("proving", (3, 0.0)),
        ("settling", None),
        ("confirming", None),
    ):
        clock.now += 5
        if plan is not None:
            course.foresee(*plan)
        course.enter(phase)
        foreseen.append(left(course))
    assert foreseen == sorted(foreseen, reverse=True)
    clock.now += 1000
    assert left(course) == 0


def test_a_further_pair_of_a_confirmation_is_foreseen_as_it_begins(
    course: Course, told: list[Doing]
) -> None:
    course.foresee(2, 0.0)
    course.enter("confirming")
    for number in range(1, MOST_PAIRS + 1):
        course.tell(pair_in_words(number))
    shown = [each.left_s or 0.0 for each in told]
    begun = [later - earlier for earlier, later in itertools.pairwise(shown)]
    assert begun == [0.0, 0.0] + [FIRST_S] * (MOST_PAIRS - 3), "three are foreseen at once"


def test_a_pair_that_is_told_before_anything_is_foreseen_changes_nothing(course: Course) -> None:
    course.tell(pair_in_words(MOST_PAIRS))
    assert course.left_s() is None


def test_slow_processes_and_slow_steps_are_learnt_from_the_control(
    course: Course, clock: Clock
) -> None:
    course.foresee(2, 0.0)
    before = left(course)
    course.tell("measuring the noise")
    clock.now += CONTROL_S + 7
    course.learn(control_of(CONTROL_S))
    course.foresee(2, 0.0)
    course.enter("measuring")
    assert left(course) == pytest.approx(before + 5 * 7), "two of settling, three of confirming"
    course.tell("measuring the noise")
    clock.now += 100.0
    course.learn(control_of(100.0))
    course.foresee(2, 0.0)
    course.enter("measuring")
    assert left(course) == 5 * 100 + PROOF_S + CURVES_S


def test_trainings_that_prove_a_precision_are_foreseen_by_those_before_them(
    course: Course, clock: Clock
) -> None:
    """Their time is a limit, which is seldom needed."""
    course.foresee(1, SEARCH_S)
    course.enter("proving")
    rest_s = left(course) - PROOF_S - SEARCH_S
    clock.now += 20.0
    course.tell(seed_in_words(1))
    assert left(course) == pytest.approx(rest_s + PROOF_S + SEARCH_S - 20.0)
    clock.now += 2.0
    course.tell(seed_in_words(2))
    assert left(course) == pytest.approx(rest_s + 2.0 * (LOOKS[-1] - 1))
    clock.now += 4.0
    course.tell(seed_in_words(3))
    assert left(course) == pytest.approx(rest_s + 2.0 * (LOOKS[-1] - 1) - 4.0), "not longer again"
    course.enter("proving")  # of what is left of the plan
    course.tell(seed_in_words(1))
    course.enter("confirming")
    before_s = left(course)
    course.tell(seed_in_words(2))
    assert left(course) == before_s, "these are for curves"
