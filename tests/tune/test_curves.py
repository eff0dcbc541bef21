"""Loss curves of plans whose proof trains nothing: real trainings, bounded, and never the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.measure.lab import Lab
from hasten.records.curves import POINTS, Curves, SeedCurve
from hasten.records.plan import Plan
from hasten.tune import curves as module
from hasten.tune.curves import SEEDS, CurveTrainer

TASKS = Path(__file__).parents[1] / "tasks"
LOADER = Plan(parts={"batched_loader": {}})


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a busy machine decides nothing."""
    monkeypatch.setattr(module, "CURVES_S", 120.0)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(f"{TASKS}/faulty.py:small", seed=0) as lab:
        yield lab


def train(lab: Lab, plan: Plan) -> tuple[Curves, CurveTrainer]:
    trainer = CurveTrainer(lab, plan, seed=7)
    return trainer.train(lambda words: None), trainer


def test_both_sides_are_trained_from_the_same_seeds(lab: Lab) -> None:
    found, trainer = train(lab, LOADER)
    assert found.failure == ""
    assert trainer.against is None
    assert found.seeds == (7, 8, 9)
    assert len(found.naive) == SEEDS
    assert found.plan[0] == found.naive[0], "a plan on the bitwise rung"
    assert found.naive[0] != found.naive[1]
    assert found.apart() == 0 < found.spread()
    assert len(found.naive[0].losses) <= POINTS <= found.steps


def test_a_plan_that_crashes_leaves_the_naive_curves_and_says_why(lab: Lab) -> None:
    found, trainer = train(lab, Plan(parts={"killed": {}}))
    assert len(found.naive) == SEEDS
    assert found.plan == ()
    assert "signal 9" in found.failure
    assert trainer.against is None


def test_a_plan_that_does_not_answer_is_ended_with_the_time(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CURVES_S", 2.0)
    found, _ = train(lab, Plan(parts={"compiles_for_ever": {}}))
    assert found.plan == ()
    assert found.failure == "the 2 s for them were spent"


def test_a_training_in_which_the_plan_did_not_run_is_no_curve_of_it(lab: Lab) -> None:
    found, _ = train(lab, Plan(parts={"overlapped_transfer": {}}))
    assert found.plan == ()
    assert found.failure


def test_a_task_that_fails_gives_no_curve_and_no_error() -> None:
    with Lab(f"{TASKS}/broken.py:raises_while_building", seed=0) as lab:
        found, _ = train(lab, LOADER)
    assert (found.steps, found.seeds, found.naive, found.plan) == (0, (), (), ())
    assert found.failure


def test_a_plan_that_begins_otherwise_is_told_against_and_still_drawn() -> None:
    with Lab(f"{TASKS}/bugs.py:plain", seed=0) as lab:
        found, trainer = train(lab, Plan(parts={"bit_flipped_before_the_first_step": {}}))
    assert len(found.plan) >= 1
    assert trainer.against is not None
    assert trainer.against.verdict == "refuted"
    assert "does not begin alike" in trainer.against.why


def test_how_far_curves_are_apart_is_told_as_far_as_both_go() -> None:
    short, long = (SeedCurve(losses=each, figures={}) for each in ((1.0, 2.0), (1.5, 2.25, 9.0)))
    found = Curves(steps=3, seeds=(0, 1), naive=(long, long), plan=(short,))
    assert (found.apart(), found.spread()) == (0.5, 0.0)
