"""Plans that do not fit on the device together: processes of both take turns."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hasten.measure import lab as lab_module
from hasten.measure import turns
from hasten.measure.compare import Contest
from hasten.measure.lab import Lab
from hasten.measure.turns import MOST_TURNS, compare_in_turns
from hasten.records.applied import OUT_OF_MEMORY, Applied
from hasten.records.measurement import Memory
from hasten.records.plan import NAIVE
from hasten.stats.paired import FEWEST_TURNS
from quick import fork_all
from specimens import make_comparison

FAULTY = Path(__file__).parents[1] / "tasks" / "faulty.py"


class Device:
    """Holds one process at a time; blocks take what the plan's name says, in milliseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: str | None = None
        self.started: list[str] = []
        self.now = 0.0
        self.noise = iter([0.0] * 1000)
        monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(turns, "block_steps", lambda arm: 1)
        monkeypatch.setattr(turns, "time_block", self._time_block)

    def start(self, plan: str) -> Any:
        assert self.held is None, "the other one is still there"
        self.held = plan
        self.started.append(plan)
        return SimpleNamespace(
            plan=plan,
            pace=1 + next(self.noise),
            warmup_s=5.0,
            has_workers=False,
            applied=(Applied(technique=plan, outcome="done", why=""),),
            read=lambda: Memory(host_bytes=int(plan)),
            worker=SimpleNamespace(close=self._close),
        )

    def _close(self) -> None:
        self.held = None

    def _time_block(self, arm: Any, steps: int) -> float:
        self.now += 1.0
        return int(arm.plan) * arm.pace / 1000


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def test_a_clear_difference_is_found_in_the_fewest_turns(device: Device) -> None:
    contest = compare_in_turns(device.start, "20", "10", seed=0)
    assert contest.comparison.decision == "faster"
    assert contest.comparison.ratio == pytest.approx(2.0)
    assert len(contest.comparison.rounds) == FEWEST_TURNS
    assert {each.technique for each in contest.applied} == {"20", "10"}
    assert (contest.a_memory.host_bytes, contest.b_memory.host_bytes) == (20, 10)
    assert device.held is None


def test_processes_that_differ_by_themselves_decide_nothing(device: Device) -> None:
    device.noise = iter([0.0, 0.3, -0.2, 0.1, 0.4, -0.1] * 10)
    contest = compare_in_turns(device.start, "10", "10", seed=0)
    assert contest.comparison.decision == "undecided"
    assert len(contest.comparison.rounds) == MOST_TURNS


def test_time_ends_it_after_the_fewest_turns(device: Device) -> None:
    device.noise = iter([0.0, 0.3, -0.2, 0.1, 0.4, -0.1] * 10)
    contest = compare_in_turns(device.start, "10", "10", seed=0, limit_s=1.0)
    assert contest.comparison.decision == "undecided"
    assert len(contest.comparison.rounds) == FEWEST_TURNS


def test_what_cannot_be_much_faster_is_not_waited_for(device: Device) -> None:
    """Slower by a tenth: whether that is the same, in so wide a margin, takes longer to tell."""
    rounds = {}
    for only_faster in (False, True):
        device.noise = iter([0.0, 0.02, 0.0, -0.02] * 10)
        contest = compare_in_turns(
            device.start, "1000", "1100", seed=0, margin=0.2, only_faster=only_faster
        )
        rounds[only_faster] = len(contest.comparison.rounds)
    assert rounds[True] == FEWEST_TURNS < rounds[False]


def test_one_that_fell_back_is_not_timed_further(device: Device) -> None:
    def start(plan: str) -> Any:
        arm = device.start(plan)
        if plan == "10":
            arm.applied = (Applied(technique=plan, outcome="fell_back", why="no"),)
        return arm

    contest = compare_in_turns(start, "20", "10", seed=0, only_faster=True)
    assert len(contest.comparison.rounds) == 1
    assert contest.b_applied[0].outcome == "fell_back"


def test_that_it_fell_back_in_one_turn_is_not_forgotten_in_the_next(device: Device) -> None:
    def start(plan: str) -> Any:
        arm = device.start(plan)
        if plan == "10" and device.started.count("10") == 1:
            arm.applied = (Applied(technique=plan, outcome="fell_back", why="no"),)
        return arm

    contest = compare_in_turns(start, "20", "10", seed=0)
    assert len(contest.comparison.rounds) == FEWEST_TURNS
    assert contest.b_applied[0].outcome == "fell_back"


def test_either_arm_goes_first(device: Device) -> None:
    device.noise = iter([0.0, 0.3, -0.2, 0.1, 0.4, -0.1] * 10)
    contest = compare_in_turns(device.start, "11", "10", seed=3)
    assert {each.first for each in contest.comparison.rounds} == {"a", "b"}
    firsts = [device.started[2 * each] for each in range(MOST_TURNS)]
    assert firsts == ["11" if each.first == "a" else "10" for each in contest.comparison.rounds]


def test_a_process_is_ended_where_its_turn_fails(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arm: object, steps: int) -> float:
        raise ValueError("no")

    monkeypatch.setattr(turns, "time_block", fail)
    with pytest.raises(ValueError, match="no"):
        compare_in_turns(device.start, "11", "10", seed=3)
    assert device.held is None


def test_a_lab_takes_turns_where_one_falls_back_for_want_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a captured graph does beside another process, and not alone."""
    lost = Applied(technique="whole_step_graph", outcome="fell_back", why=OUT_OF_MEMORY)
    closed: list[str] = []

    def arm(name: str) -> Any:
        return SimpleNamespace(worker=SimpleNamespace(close=lambda: closed.append(name)))

    contests = [
        Contest(make_comparison(), (), (lost,), Memory(), Memory()),
        Contest(make_comparison(), (), (), Memory(), Memory()),
    ]
    in_turns = Contest(make_comparison(3.0), (), (), Memory(), Memory())
    monkeypatch.setattr(lab_module, "_compare_beside", lambda *_: contests.pop(0))
    monkeypatch.setattr(lab_module, "compare_in_turns", lambda *_, **__: in_turns)
    monkeypatch.setattr(Lab, "arms", lambda *_: [arm("a"), arm("b")])
    lab = object.__new__(Lab)
    assert lab.compare(NAIVE, NAIVE, seed=0) is in_turns
    assert closed == ["a", "b"]
    assert lab.compare(NAIVE, NAIVE, seed=0) is not in_turns


def test_a_lab_takes_turns_where_both_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.05)
    monkeypatch.setattr(turns, "MOST_TURNS", FEWEST_TURNS)
    fork_all(monkeypatch.setattr)
    with Lab(f"{FAULTY}:alone", seed=0) as lab:
        contest = lab.compare(NAIVE, NAIVE, seed=0)
    assert len(contest.comparison.rounds) == FEWEST_TURNS
    assert contest.comparison.load is not None
