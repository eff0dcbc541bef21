"""Two plans on a device that has room for both, for one, or for none beside a proof."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hasten.measure import turns
from hasten.measure.lab import Lab
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import OUT_OF_MEMORY, Applied
from hasten.records.measurement import Memory
from hasten.records.plan import NAIVE, Plan
from hasten.records.verdict import Comparison
from hasten.stats.paired import FEWEST_TURNS
from hasten.tune import rivals as room
from hasten.tune.rivals import IncumbentFailure, Rivals, Terms
from quick import fork_all
from specimens import make_comparison

FAULTY = Path(__file__).parents[1] / "tasks" / "faulty.py"
TERMS = Terms(seed=0, confidence=0.99, margin=0.01, limit_s=1.0, warm_limit_s=60.0)
RIVAL = Plan(parts={"a": {}})
OTHER = Plan(parts={"b": {}})
FLAKY = Plan(parts={"c": {}})
"""It runs the first time that it is begun, and falls back from then on."""
CRASHED = Failed(kind="crashed", what="It ended by signal 9.")


@dataclass
class Arm:
    """Of a plan; it is its own worker."""

    device: "Device"
    plan: Plan
    state: str = "warm"
    has_failed: bool = False

    @property
    def worker(self) -> "Arm":
        return self

    @property
    def applied(self) -> tuple[Applied, ...]:
        if self.plan == FLAKY and self.device.begun(FLAKY) > 1:
            return (Applied(technique="c", outcome="fell_back", why="no luck"),)
        if self.plan == RIVAL and self.device.falls_back and len(self.device.living()) > 1:
            return (Applied(technique="a", outcome="fell_back", why=OUT_OF_MEMORY),)
        return ()

    def fell_back(self) -> Applied | None:
        return next(iter(self.applied), None)

    def read(self) -> Memory:
        if self.state == "dead":
            raise WorkerFailure(CRASHED)
        return Memory(device_reserved_bytes=self.device.each)

    def pause(self) -> None:
        self.state = "paused"

    def close(self) -> None:
        self.state = "ended"


@dataclass
class Device:
    """Plans take ``each`` of its ``total`` bytes; it is the lab of its plans."""

    total: int
    each: int = 100
    falls_back: bool = False
    """Instead of failing where there is no room."""
    arms_made: list[Arm] = field(default_factory=list)
    in_turns: int = 0

    def living(self) -> list[Arm]:
        return [each for each in self.arms_made if each.state != "ended"]

    def begun(self, plan: Plan) -> int:
        return [each.plan for each in self.arms_made].count(plan)

    def arms(self, plan: Plan, **_: object) -> list[Arm]:
        if not self.falls_back and (len(self.living()) + 1) * self.each > self.total:
            raise WorkerFailure(Failed(kind="out_of_memory", what="CUDA out of memory"))
        self.arms_made.append(Arm(self, plan))
        return [self.arms_made[-1]]

    def compare_in_turns(self, start: Any, a: Plan, b: Plan, **_: object) -> turns.Contest:
        self.in_turns += 1
        applied = []
        for plan in (a, b):
            arm = start(plan)
            applied.append(arm.applied)
            arm.close()
        return turns.Contest(make_comparison(2.0), *applied, Memory(), Memory())


@pytest.fixture
def make_device(monkeypatch: pytest.MonkeyPatch) -> Any:
    def compare(a: Arm, b: Arm, **_: object) -> Comparison:
        if "dead" in (a.state, b.state):
            raise WorkerFailure(CRASHED)
        assert [a.state, b.state] == ["warm", "warm"]
        return make_comparison(2.0)

    def make(total: int, **settings: Any) -> Device:
        made = Device(total, **settings)
        monkeypatch.setattr(room, "compare", compare)
        monkeypatch.setattr(room, "compare_in_turns", made.compare_in_turns)
        return made

    return make


def rivals_on(device: Device) -> Rivals:
    return Rivals(device, device.total)  # type: ignore[arg-type]


def test_where_there_is_room_both_stay_and_the_winner_is_the_next_incumbent(
    make_device: Any,
) -> None:
    device = make_device(1000)
    rivals = rivals_on(device)
    assert rivals.meet(NAIVE, RIVAL, TERMS).comparison is not None
    rivals.part(won=True)
    assert [(each.plan, each.state) for each in device.arms_made] == [
        (NAIVE, "ended"),
        (RIVAL, "warm"),
    ]
    rivals.meet(RIVAL, NAIVE, TERMS)
    rivals.part(won=False)
    assert [(each.plan, each.state) for each in device.arms_made[1:]] == [
        (RIVAL, "warm"),
        (NAIVE, "ended"),
    ]
    assert device.in_turns == 0


@pytest.mark.parametrize("falls_back", [False, True])
def test_where_there_is_room_for_one_they_take_turns_from_then_on(
    make_device: Any, falls_back: bool
) -> None:
    device = make_device(150, falls_back=falls_back)
    rivals = rivals_on(device)
    for meetings in (1, 2):
        met = rivals.meet(NAIVE, RIVAL, TERMS)
        assert met.comparison is not None
        assert met.fell_back() is None
        assert device.in_turns == meetings
        assert device.living() == []
        rivals.part(won=True)
    beside = [each.plan for each in device.arms_made[:-4]]
    assert beside == ([NAIVE, RIVAL] if falls_back else [NAIVE]), "tried once, not in each meeting"


def test_what_runs_out_of_memory_alone_is_not_blamed_on_the_other(make_device: Any) -> None:
    device = make_device(1000)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, RIVAL, TERMS)
    rivals.part(won=False)
    fits = device.arms
    device.arms = lambda plan, **_: fits(plan) if plan == NAIVE else Device(0).arms(plan)
    with pytest.raises(WorkerFailure, match="out of memory"):
        rivals.meet(NAIVE, RIVAL, TERMS)
    assert device.living() == []
    device.arms = fits
    rivals.meet(NAIVE, RIVAL, TERMS)
    assert len(device.living()) == 2, "side by side again"


@pytest.mark.parametrize(("total", "state"), [(500, "paused"), (499, "ended")])
def test_a_proof_has_room_beside_them_or_they_are_ended(
    make_device: Any, total: int, state: str
) -> None:
    device = make_device(total)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, RIVAL, TERMS)
    rivals.make_room()
    assert {each.state for each in device.arms_made} == {state}


def test_an_incumbent_that_was_kept_without_a_contest_is_started(make_device: Any) -> None:
    """As trials of an earlier search are, which are taken over."""
    device = make_device(1000)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, RIVAL, TERMS)
    rivals.part(won=False)
    rivals.meet(OTHER, RIVAL, TERMS)
    assert [each.plan for each in device.living()] == [OTHER, RIVAL]


def test_an_incumbent_that_died_since_is_no_fault_of_its_rival(make_device: Any) -> None:
    device = make_device(1000)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, RIVAL, TERMS)
    rivals.part(won=False)
    device.living()[0].state = "dead"
    assert rivals.meet(NAIVE, OTHER, TERMS).comparison is not None
    assert [each.plan for each in device.living()] == [NAIVE, OTHER]


@pytest.mark.parametrize("fits_beside", [True, False])
def test_an_incumbent_that_falls_back_when_it_is_begun_again_is_beaten_by_nobody(
    make_device: Any, fits_beside: bool
) -> None:
    device = make_device(1000)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, FLAKY, TERMS)
    rivals.part(won=True)
    rivals.end()
    rivals._take_turns = not fits_beside
    with pytest.raises(IncumbentFailure, match="did not run again as it had: c: fell back"):
        rivals.meet(FLAKY, OTHER, TERMS)
    assert device.living() == []
    assert device.begun(FLAKY) == 2, "a process that has not died is not begun once more"


def test_an_incumbent_that_falls_back_for_want_of_memory_beside_takes_turns(
    make_device: Any,
) -> None:
    device = make_device(150, falls_back=True)
    met = rivals_on(device).meet(RIVAL, OTHER, TERMS)
    assert met.comparison is not None
    assert device.in_turns == 1


@pytest.mark.parametrize("kind", ["hung", "error"])
def test_an_incumbent_that_does_not_begin_is_waited_for_once(make_device: Any, kind: Any) -> None:
    device = make_device(1000)
    limits: list[object] = []

    def arms(plan: Plan, **settings: object) -> list[Arm]:
        limits.append(settings.get("limit_s"))
        raise WorkerFailure(Failed(kind=kind, what="no"))

    device.arms = arms
    with pytest.raises(IncumbentFailure):
        rivals_on(device).meet(NAIVE, RIVAL, TERMS)
    assert limits == [None], "it has run before, and is not cut short"


def test_an_incumbent_that_hangs_is_no_fault_of_its_rival(
    make_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed for it."""

    def compare(a: Arm, b: Arm, **_: object) -> None:
        a.state = "dead"
        raise WorkerFailure(Failed(kind="hung", what="no answer"))

    device = make_device(1000)
    monkeypatch.setattr(room, "compare", compare)
    with pytest.raises(IncumbentFailure, match="no answer"):
        rivals_on(device).meet(NAIVE, RIVAL, TERMS)
    assert device.living() == []


@pytest.mark.parametrize("fails", [NAIVE, RIVAL])
def test_who_raises_while_both_are_timed_is_whose_fault_it_is(
    make_device: Any, monkeypatch: pytest.MonkeyPatch, fails: Plan
) -> None:
    """Its process lives on."""

    def compare(a: Arm, b: Arm, **_: object) -> None:
        (a if a.plan == fails else b).has_failed = True
        raise WorkerFailure(Failed(kind="raised", what="The training raised: no."))

    device = make_device(1000)
    monkeypatch.setattr(room, "compare", compare)
    with pytest.raises(WorkerFailure) as caught:
        rivals_on(device).meet(NAIVE, RIVAL, TERMS)
    assert isinstance(caught.value, IncumbentFailure) == (fails == NAIVE)
    assert device.begun(fails) == 1


@pytest.mark.parametrize("dies", [NAIVE, RIVAL])
def test_who_dies_in_its_turn_is_whose_fault_it_is(make_device: Any, dies: Plan) -> None:
    device = make_device(1000)

    def in_turns(start: Any, a: Plan, b: Plan, **_: object) -> None:
        for plan in (b, a) if dies == NAIVE else (a, b):
            start(plan).close()
        raise WorkerFailure(CRASHED)

    room.compare_in_turns = in_turns  # type: ignore[assignment]  # which the fixture takes back
    rivals = rivals_on(device)
    rivals._take_turns = True
    with pytest.raises(WorkerFailure) as caught:
        rivals.meet(NAIVE, RIVAL, TERMS)
    assert isinstance(caught.value, IncumbentFailure) == (dies == NAIVE)
    assert device.begun(dies) == (2 if dies == NAIVE else 1), "once more"


@pytest.mark.parametrize("deaths", [1, 2])
def test_an_incumbent_that_dies_as_it_begins_is_begun_once_more(
    make_device: Any, deaths: int
) -> None:
    device = make_device(1000)
    fits, left = device.arms, [CRASHED] * deaths

    def arms(plan: Plan, **_: object) -> list[Arm]:
        if plan == NAIVE and left:
            raise WorkerFailure(left.pop())
        return fits(plan)

    device.arms = arms
    rivals = rivals_on(device)
    if deaths == 1:
        assert rivals.meet(NAIVE, RIVAL, TERMS).comparison is not None
        assert len(device.living()) == 2
    else:
        with pytest.raises(IncumbentFailure, match="signal 9"):
            rivals.meet(NAIVE, RIVAL, TERMS)
        assert device.arms_made == []


def test_a_rival_that_dies_is_its_own_fault(make_device: Any) -> None:
    device = make_device(1000)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, RIVAL, TERMS)
    rivals.part(won=False)
    fits = device.arms

    def arms(plan: Plan, **_: object) -> list[Arm]:
        (made,) = fits(plan)
        made.state = "dead" if plan == OTHER else made.state
        return [made]

    device.arms = arms
    with pytest.raises(WorkerFailure, match="signal 9") as caught:
        rivals.meet(NAIVE, OTHER, TERMS)
    assert not isinstance(caught.value, IncumbentFailure)
    assert device.living() == []
    assert device.begun(OTHER) == 1, "it is not tried again"


def test_one_that_died_leaves_room(make_device: Any) -> None:
    device = make_device(1000)
    rivals = rivals_on(device)
    rivals.meet(NAIVE, RIVAL, TERMS)
    device.living()[0].state = "dead"
    rivals.make_room()
    assert device.living() == []


def test_real_processes_that_do_not_fit_together_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.05)
    monkeypatch.setattr(turns, "MOST_TURNS", FEWEST_TURNS)
    fork_all(monkeypatch.setattr)
    with Lab(f"{FAULTY}:alone", seed=0) as lab:
        rivals = Rivals(lab, None)
        met = rivals.meet(NAIVE, NAIVE, TERMS)
        rivals.end()
    assert met.comparison is not None
    assert 0 < len(met.comparison.rounds) <= FEWEST_TURNS
