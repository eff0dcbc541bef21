"""What a search begins in the time that it has."""

import time

import pytest
from msgspec.structs import replace

from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.finding import Finding
from hasten.records.plan import NAIVE, Plan
from pretended_world import (
    MakeWorld,
    PretendedArm,
    by_parts,
    finding,
    offer,
    rows,
)


def test_it_does_not_look_again_without_the_time_to_try_what_it_would_find(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = [0.0], list[Plan]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def found(plan: Plan) -> list[Finding]:
        looks.append(plan)
        clock[0] += 40.0
        return [finding("slow")]

    here = world(speed=by_parts(a=1.5, b=1.5, c=1.5), found=found, seconds_left=100.0)
    search = here.search(offer("a"), offer("b"), offer("c"))
    assert rows(search) == [("a", "kept"), ("b", "kept"), ("c", "kept")], "20 s are left for these"
    assert looks == [NAIVE, Plan(parts={"a": {}})]


def test_without_time_the_rest_is_said_to_be_untried(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=2.0), seconds_left=1.0)
    search = here.search(offer("a"), offer("b"))
    assert rows(search) == [("a", "out_of_time"), ("b", "out_of_time")]
    assert here.compared == []


def test_a_trial_is_not_begun_in_less_time_than_any_took(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def speed(plan: Plan) -> float:
        clock[0] += 20.0  # once for each of the two
        return by_parts(a=1.5, b=1.5, c=1.5)(plan)

    search = world(speed=speed, seconds_left=100.0).search(offer("a"), offer("b"), offer("c"))
    assert rows(search) == [("a", "kept"), ("b", "kept"), ("c", "out_of_time")]


def test_what_a_slow_one_took_keeps_no_quick_one_from_its_turn(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def speed(plan: Plan) -> float:
        clock[0] += 30.0 if len(here.compared) == 1 else 2.0  # once for each of the two
        return by_parts(slow=1.5, a=1.5, b=1.5)(plan)

    here = world(speed=speed, seconds_left=70.0)
    slow = replace(offer("slow", "more"), slow_to_prepare=True)
    here.found = lambda plan: [finding("more", 3.0), finding("slow", 1.04)]
    search = here.search(slow, offer("a"), offer("b"))
    assert rows(search) == [("slow", "kept"), ("a", "kept"), ("b", "kept")]


def test_each_that_waits_has_its_share_of_the_time_that_is_left(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    here = world(speed=by_parts(), seconds_left=40.0)
    here.search(offer("a"), offer("b"), offer("c"), offer("d"))
    assert here.limits == pytest.approx([10.0, 40 / 3, 20.0, 30.0]), "the last one has enough"


def test_the_first_look_is_foreseen_by_what_the_naive_one_took(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    for look_s, looks in ((1.0, 1), (60.0, 0)):
        here = world(speed=by_parts(a=2.0), seconds_left=50.0, look_s=look_s)
        here.search(offer("a"))
        assert here.told.count("measuring where the time goes now") == looks


def test_what_is_slow_to_prepare_has_half_of_what_is_left_and_more_with_more_minutes(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(speed=by_parts(a=2.0))
    limits = []

    def arms(plan: Plan, limit_s: float = 0.0, **_: object) -> list[PretendedArm]:
        limits.append(limit_s)
        if "slow" in plan.parts:
            raise WorkerFailure(Failed(kind="hung", what=f"No answer in {limit_s:.0f} s."))
        return [PretendedArm(plan, None)]

    monkeypatch.setattr(here, "arms", arms)
    search = here.search(offer("a"), replace(offer("slow"), slow_to_prepare=True))
    assert rows(search) == [("a", "kept"), ("slow", "out_of_time")]
    assert search.trials[-1].why == (
        "it was not ready in its half of the time that was left; give more --minutes"
    )
    assert 50 in map(round, limits)
    assert limits[1] > here.seconds_left, "what is not may go beyond"


def test_a_change_of_what_is_slow_to_prepare_is_slow_too(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled model may be compiled anew with it."""
    here = world(
        speed=by_parts(slow=2.0),
        found=lambda plan: [finding("other" if plan.parts else "slow")],
    )

    def arms(plan: Plan, **_: object) -> list[PretendedArm]:
        if "late" in plan.parts:
            raise WorkerFailure(Failed(kind="hung", what="No answer."))
        return [PretendedArm(plan, None)]

    monkeypatch.setattr(here, "arms", arms)
    slow = replace(offer("slow"), slow_to_prepare=True)
    search = here.search(slow, offer("late", "other"))
    assert rows(search) == [("slow", "kept"), ("late", "out_of_time")]
