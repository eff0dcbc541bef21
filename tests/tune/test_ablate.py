"""What each part is worth: the whole plan stays warm, and a part that fails spoils no other."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import Plan
from hasten.records.tuning import Worth
from hasten.tune import ablate as ablating
from hasten.tune.ablate import ablate, idle
from specimens import make_comparison

PLAN = Plan(parts={"a": {}, "b": {}, "c": {}})


class PretendedArm:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.worker, self.applied = plan, self, ()

    def close(self) -> None: ...


class PretendedLab:
    def __init__(self, fails_without: str = "", times: int = 2) -> None:
        self.started: list[str] = []
        self.fails_without, self.times = fails_without, times

    def arms(self, plan: Plan, *, anew: bool) -> list[PretendedArm]:
        self.started.append(str(plan))
        if self.fails_without and self.fails_without not in plan.parts and self.times:
            self.times -= 1
            raise WorkerFailure(Failed(kind="crashed", what="It died."))
        return [PretendedArm(plan)]

    def close_workers(self) -> None: ...


@pytest.fixture(autouse=True)
def _compare(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(less: PretendedArm, whole: PretendedArm, **_: object) -> Any:
        return make_comparison(2.0 if "a" not in less.plan.parts else 1.0)

    monkeypatch.setattr(ablating, "compare", compare)


def run(
    lab: PretendedLab,
    plan: Plan = PLAN,
    known: Mapping[str, Worth] = MappingProxyType({}),
    note: Callable[[Worth], None] = lambda worth: None,
) -> dict[str, Worth]:
    worth = ablate(lab, plan, lambda words: None, known, note)  # type: ignore[arg-type]
    return {each.technique: each for each in worth}


def test_each_part_is_left_out_once_and_the_whole_is_started_once() -> None:
    lab = PretendedLab()
    found = run(lab)
    assert lab.started == ["a + b + c", "b + c", "a + c", "a + b"]
    assert [each.ratio for each in found.values()] == [2.0, 1.0, 1.0]


def test_a_part_without_which_it_fails_is_said_to_and_the_others_go_on() -> None:
    lab = PretendedLab(fails_without="b")
    found = run(lab)
    assert found["b"].failure == "It died."
    assert (found["a"].ratio, found["c"].failure) == (2.0, "")
    assert lab.started.count("a + b + c") == 3, "begun anew after each failure"


def test_a_process_that_dies_once_is_begun_once_more() -> None:
    assert run(PretendedLab(fails_without="b", times=1)) == run(PretendedLab())


def test_what_was_weighed_before_a_stop_is_not_weighed_again() -> None:
    noted: list[Worth] = []
    whole = run(PretendedLab(fails_without="b"), note=noted.append)
    assert noted == list(whole.values()), "each as it is found"
    lab = PretendedLab()
    known = {each.technique: each for each in noted[:2]}
    assert run(lab, known=known, note=noted.append) == whole
    assert lab.started == ["a + b + c", "a + b"]
    assert noted[3:] == [whole["c"]], "what is known is noted already"


def test_one_part_alone_is_worth_what_the_plan_is() -> None:
    lab = PretendedLab()
    assert run(lab, Plan(parts={"a": {}})) == {}
    assert lab.started == []


@pytest.mark.parametrize(
    ("high", "failure", "is_idle"),
    [(0.95, "", True), (0.98, "", False), (1.0, "", False), (0.5, "It died.", False)],
)
def test_only_what_makes_the_plan_slower_by_more_than_noise_is_idle(
    high: float, failure: str, is_idle: bool
) -> None:
    worth = Worth(technique="a", ratio=0.9, low=0.8, high=high, failure=failure)
    assert idle((worth,), noise_floor=1.04) == (["a"] if is_idle else [])
