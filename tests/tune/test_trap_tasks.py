"""Trainings that a careless tuner would break: a right answer, or a clear refusal, end to end.

Timing is cut short, and all workers are forked, so that a verdict on speed may go either way here;
what may not, is that something is kept which changes the training.
"""

from pathlib import Path
from typing import Any

import pytest

from hasten.errors import HastenError
from hasten.flow import tune
from hasten.records.plan import NAIVE
from hasten.records.recipe import Evidence
from hasten.records.trial import Trial
from hasten.records.tuning import FASTER, Aim
from quick import shorten

TRAPS = Path(__file__).parents[1] / "tasks" / "traps.py"
compiling = pytest.mark.long
"""Of those that go on to compile the model, which takes most of their time."""
LOADING = ("loader_workers", "batched_loader")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)


@pytest.fixture
def tuned(tmp_path: Path) -> Any:
    def run(task: str, aim: Aim = FASTER) -> Evidence:
        return tune(f"{TRAPS}:{task}", out=tmp_path / "out", minutes=0.5, aim=aim)

    return run


def rows_of(evidence: Evidence, technique: str) -> list[Trial]:
    return [each for each in evidence.trials if each.candidate.technique == technique]


def assert_sound(evidence: Evidence) -> None:
    """Whatever was kept was proven, and never by less than it claims."""
    for trial in evidence.trials:
        if trial.outcome == "kept":
            assert trial.numerics is not None
            assert trial.numerics.verdict == "proven"
    if evidence.outcome == "recipe":
        assert evidence.numerics is not None
        assert evidence.numerics.verdict == "proven"


@compiling
@pytest.mark.parametrize(
    "task", ["branches_on_data", "two_optimizers", "has_sparse_gradients", "in_double_precision"]
)
def test_an_odd_training_is_tuned_as_any_other(tuned: Any, task: str) -> None:
    evidence = tuned(task)
    assert_sound(evidence)
    assert evidence.trials
    assert not [each for each in evidence.trials if each.outcome == "refuted"]


def test_random_augmentation_is_not_frozen(tuned: Any) -> None:
    """Most of a step is spent on it: what keeps it is many times faster, and another training."""
    evidence = tuned("augments_at_random")
    for technique in ("freezes", "freezes_and_shuffles"):
        (row,) = rows_of(evidence, technique)
        assert row.outcome == "refuted", row
        assert row.numerics is not None
        assert row.numerics.checks[-1].name == "data"
    (workers, *_), (batched,) = (rows_of(evidence, each) for each in LOADING)
    assert (workers.outcome, batched.outcome) == ("not_tried", "not_tried")
    assert "draw random numbers" in workers.why
    assert evidence.plan == NAIVE


@pytest.mark.parametrize("task", ["normalizes_batches", "compares_rows"])
def test_rows_that_depend_on_each_other_are_not_split(tuned: Any, task: str) -> None:
    evidence = tuned(task, Aim(goal="memory"))
    assert_sound(evidence)
    (row,) = rows_of(evidence, "gradient_accumulation")
    assert (row.outcome, row.why) == (
        "not_tried",
        "the loss or a layer couples the rows of a batch",
    )


@compiling
def test_a_model_that_counts_its_calls_supports_no_claim(tuned: Any) -> None:
    """It differs from itself, and whoever calls it once more changes it."""
    evidence = tuned("counts_its_calls")
    assert evidence.plan == NAIVE
    for row in rows_of(evidence, "compile"):
        assert row.outcome in ("fell_back", "out_of_time"), row


def test_a_model_that_no_compiler_takes_is_a_row(tuned: Any) -> None:
    evidence = tuned("crashes_when_compiled")
    assert_sound(evidence)
    assert "compile" not in evidence.plan.parts
    (row, *_) = rows_of(evidence, "compile")
    assert row.outcome == "fell_back", row
    assert "fake tensor call" in row.why


def test_a_training_that_runs_out_of_memory_says_so(tuned: Any) -> None:
    with pytest.raises(HastenError, match="out of memory"):
        tuned("runs_out_at_the_third_step")


def test_a_training_that_hangs_is_ended(tuned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.measure.worker.Worker.ask.__defaults__", (8.0,))
    with pytest.raises(HastenError, match="gave no answer in 8 s") as caught:
        tuned("hangs")
    assert "traps.py" in caught.value.detail


def test_an_optimizer_with_a_closure_is_refused(tuned: Any, tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="LBFGS computes the loss several times"):
        tuned("closes_over_its_step")
    assert not (tmp_path / "out").exists(), "nothing was written"
