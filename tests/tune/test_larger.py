"""Larger batches: real trainings decide, with rows a second that are pretended.

On a quiet machine a step of sixteen times these few rows takes hardly longer; a busy one is not to
decide a test.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.flow import tune
from hasten.measure.lab import Lab
from hasten.measure.messages import Failed
from hasten.records.applied import Applied
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.recipe import read_recipe
from hasten.records.trial import Offer, Trial
from hasten.records.tuning import Aim
from hasten.records.verdict import Comparison, SpeedClaim
from hasten.tune import larger, rivals
from hasten.tune.arms import find_arms
from hasten.tune.journal import Journal, Learnt
from hasten.tune.larger import EXPLORED, PROVEN, TECHNIQUE, LargerBatch
from hasten.tune.rivals import IncumbentFailure
from hasten.tune.spending import Stopwatch
from hasten.tune.target import Goal, claim_time
from quick import shorten
from specimens import (
    CONFIRMATION,
    CONTROL,
    SPEED,
    TRAITS,
    make_candidate,
    make_comparison,
    make_trial,
)
from specimens import PROVEN as PROVEN_TUNING

TASKS = Path(__file__).parents[1] / "tasks" / "batches.py"
FLOOR = 1.05
STEPS = 320
"""Of the unchanged training."""


def faster(plan: Plan) -> float:
    """Nearly as many times as many rows."""
    return 0.9 * int(str(plan.parts[TECHNIQUE]["times"]))


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speeds; everything else is real."""

    class Arm:
        applied: tuple[Applied, ...] = ()
        state = None

        def __init__(self, plan: Plan) -> None:
            self.plan = plan

        @property
        def worker(self) -> Any:
            return SimpleNamespace(close=lambda: None)

        def read(self) -> None:
            pass

        def fell_back(self) -> Applied | None:
            return None

    def arms(lab: Lab, *plans: Plan, **_: object) -> list[Arm]:
        return [Arm(each) for each in plans]

    def compare(own: Arm, larger: Arm, **_: object) -> Comparison:
        return make_comparison(faster(larger.plan))

    def confirm(lab: Lab, own: Plan, plan: Plan, *_: object) -> Any:
        done = Applied(technique=TECHNIQUE, outcome="done", why="64 rows a step instead of 4")
        pair = make_comparison(faster(plan))
        return replace(CONFIRMATION, pairs=(pair, pair), applied=(done,))

    monkeypatch.setattr(Lab, "arms", arms)
    monkeypatch.setattr(rivals, "compare", compare)
    monkeypatch.setattr(larger, "confirm", confirm)
    monkeypatch.setattr(larger, "MOST_STEPS", STEPS)


class Tried:
    """One task, on top of the naive plan."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        described = lab.describe()
        (self.offer,) = (each for each in described.offers if each.technique == TECHNIQUE)
        self.batch = described.traits.data.batch_size or 0
        self.noted: list[Any] = []

    def run(self, offer: Offer | None = None, **changes: Any) -> dict[int, Trial]:
        made = {"limit_s": 1e6, "known": {}, "memory_bytes": None, "chances": 5, **changes}
        batches = LargerBatch(
            lab=self.lab,
            base=NAIVE,
            batch=self.batch,
            noise_floor=FLOOR,
            note=self.noted.append,
            tell=lambda words: None,
            **made,
        )
        rows = batches.try_all(offer or self.offer)
        return {int(str(each.candidate.part.get("times", 0))): each for each in rows}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One for all tasks: it is torch that takes long to load."""
    with Lab("", 0) as lab:
        yield lab


@pytest.fixture
def tried(lab: Lab) -> Callable[[str], Tried]:
    def describe(task: str) -> Tried:
        lab.task = f"{TASKS}:{task}"
        return Tried(lab)

    return describe


@pytest.mark.usefixtures("pretended")
def test_steps_so_small_that_more_rows_cost_nothing_become_larger(
    tried: Callable[[str], Tried],
) -> None:
    rows = tried("tiny_steps").run()
    assert [each.outcome for each in rows.values()] == ["not_faster"] * 3 + ["kept"]
    claim = rows[16].target
    assert claim is not None
    assert claim.verdict == "proven"
    assert claim.low > 4, "many times as soon, not some percent"
    assert set(claim.means()) == {"training loss", "evaluation loss"}
    assert [each.seed for each in claim.seeds] == list(PROVEN)
    assert not set(EXPLORED) & set(PROVEN)
    assert claim.steps == STEPS
    assert "no better than times = 16" in rows[8].why


@pytest.mark.usefixtures("pretended")
def test_where_steps_count_no_larger_batch_is_taken_however_fast_it_is(
    tried: Callable[[str], Tried],
) -> None:
    rows = tried("steps_that_count").run()
    assert rows
    for row in rows.values():
        assert row.outcome == "missed_target"
        assert "its loss is not finite" in row.why or "it is not there after" in row.why
        assert row.comparison is not None
        assert row.comparison.decision == "faster"
        assert row.target is None


@pytest.mark.usefixtures("pretended")
def test_more_rows_than_the_speed_makes_up_for_have_missed_the_target(
    tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each larger batch needs nearly as many times the rows: its rate does not grow at all."""
    monkeypatch.setattr(rivals, "compare", lambda *_, **__: make_comparison(1.2))
    same = tried("tiny_steps_at_one_rate")
    rows = same.run()
    assert rows
    for row in rows.values():
        assert row.outcome == "missed_target"
        assert row.why.startswith("from seed 100 it is not there after")


@pytest.mark.usefixtures("pretended")
def test_a_training_that_learns_nothing_has_no_target(tried: Callable[[str], Tried]) -> None:
    rows = tried("learns_nothing").run()
    assert rows
    for row in rows.values():
        assert row.outcome == "no_verdict"
        assert "gets no better: there is no target" in row.why


@pytest.mark.usefixtures("pretended")
def test_a_training_that_fails_is_a_row_and_known_rows_are_not_run_again(
    tried: Callable[[str], Tried],
) -> None:
    broken = tried("breaks_with_many_rows")
    offer = replace(broken.offer, parts=tuple(p for p in broken.offer.parts if p["times"] != 2))
    rows = broken.run(offer)
    assert {times: row.outcome for times, row in rows.items()} == dict.fromkeys(rows, "failed")
    assert "batches.py" in rows[4].detail
    assert broken.noted == list(rows.values())
    broken.lab.close_workers()
    broken.lab.task = "nothing:to_train"
    assert broken.run(offer, known={each.key(): each for each in broken.noted}) == rows


@pytest.mark.usefixtures("pretended")
def test_where_its_own_batch_fails_no_larger_one_has_failed(
    tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise IncumbentFailure(Failed(kind="crashed", what="It ended."))

    monkeypatch.setattr(rivals.Rivals, "meet", fail)
    here = tried("tiny_steps")
    rows = here.run()
    assert {(each.outcome, each.why) for each in rows.values()} == {
        ("no_verdict", "what it was compared with failed: It ended.")
    }
    assert here.noted == [], "another tuning tries them"


def test_a_step_that_takes_more_than_is_allowed_is_not_trained(
    tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch, pretended: None
) -> None:
    monkeypatch.setattr(Lab, "peak", lambda lab, plan: 2_000_000)
    rows = tried("tiny_steps").run(memory_bytes=1_000_000)
    assert {each.outcome for each in rows.values()} == {"too_large"}


def test_without_time_every_batch_is_a_row(tried: Callable[[str], Tried], pretended: None) -> None:
    rows = tried("tiny_steps").run(limit_s=0.0)
    assert {each.outcome for each in rows.values()} == {"out_of_time"}
    assert "96 are needed" in rows[2].why


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("few_rows", "the data has 12 rows, and a batch 8"),
        ("made_by_a_sampler", "not made by a DataLoader's batch_size"),
        ("compares_rows", "the loss compares the rows of a batch"),
    ],
)
def test_what_cannot_be_larger_is_one_row_with_the_reason(
    tried: Callable[[str], Tried], task: str, why: str
) -> None:
    (row,) = tried(task).run().values()
    assert row.outcome == "not_tried"
    assert why in row.why


def _claim(*rows: int, low: float = 7.8, among: int = 5) -> str:
    speed: SpeedClaim = replace(SPEED, ratio=8.0, low=low, high=8.2)
    goals = [Goal(seed, {"training loss": 0.5}, (), 1000) for seed in range(len(rows))]
    return claim_time(goals, rows, speed, 1.05, among).verdict


def test_the_claim_is_of_time_and_not_of_rows_a_second() -> None:
    assert _claim(1000, 1050, 950, 1000, 1020) == "proven"
    assert _claim(7900, 8000, 8100, 8000, 7950) == "not_proven", "as many rows more as a second"
    assert _claim(16000, 16500, 15500, 16000, 16200) == "refuted"
    assert _claim(1000, 1050, 40_000, 1000, 1020) == "not_proven", "one seed that takes for ever"
    assert _claim(5000, 5100, 5200, 5000, 5100, low=1.0) == "not_proven", "a speed in doubt"


def test_the_more_batches_there_are_the_less_error_has_each() -> None:
    seeds = (3900, 4900, 5900, 4400, 5400)
    assert (_claim(*seeds, among=1), _claim(*seeds, among=5)) == ("proven", "not_proven")


@pytest.mark.parametrize("holds", [True, False])
def test_a_batch_that_was_kept_before_is_proven_again_first(
    holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def try_all(batches: LargerBatch, offer: Offer) -> tuple[Trial, ...]:
        asked.append(len(offer.parts))
        return (replace(kept, outcome="kept" if holds else "no_verdict"),)

    part: dict[str, Any] = {"times": 8, "learning_rate": "sqrt"}
    kept = replace(make_trial(TECHNIQUE), candidate=replace(make_candidate(TECHNIQUE), part=part))
    offer = Offer(
        technique=TECHNIQUE,
        rung=Rung.CHANGES_TRAINING,
        answers=(),
        parts=(part, {**part, "times": 16}),
        changes_data=False,
        slow_to_prepare=False,
        refusal=None,
    )
    described: Any = SimpleNamespace(offers=(offer,), traits=TRAITS)
    monkeypatch.setattr(LargerBatch, "try_all", try_all)
    evidence = replace(PROVEN_TUNING, larger_batch=(kept,))
    nothing: Any = None
    larger.try_larger_batch(
        nothing,
        described,
        evidence,
        FLOOR,
        60.0,
        Journal(tmp_path / "out", Stopwatch()),
        Learnt(),
        print,
    )
    assert asked == ([1] if holds else [1, 2])


@pytest.mark.parametrize("changed", ["batch_size", "weight_initialization"])
def test_the_speed_of_another_training_is_not_compared(lab: Lab, changed: str) -> None:
    lab.task = f"{TASKS}:tiny_steps"
    with pytest.raises(HastenError, match=f"{changed} is another training"):
        find_arms(lab, "naive", changed, lambda words: None)


def test_goal_memory_and_a_larger_batch_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="contradict each other"):
        tune("no:task", out=tmp_path / "out", aim=Aim(goal="memory"), allow=("batch-size",))
    assert not (tmp_path / "out").exists()


def test_a_tuning_writes_what_it_changes_at_the_top_of_its_recipe(
    tmp_path: Path, pretended: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search itself is left out: it is as it is without --allow."""
    shorten(monkeypatch.setattr)
    monkeypatch.setattr("hasten.tune.search.Search.run", lambda search, findings, tell: None)
    monkeypatch.setattr("hasten.tune.tuning.measure_noise", lambda lab, plan, tell: CONTROL)
    out = tmp_path / "out"
    evidence = tune(f"{TASKS}:tiny_steps", out=out, minutes=1000, allow=("batch-size",))
    assert (evidence.outcome, evidence.verdict, evidence.speed) == ("recipe", "proven", None)
    assert evidence.plan == NAIVE
    recipe = read_recipe(out / "recipe.toml")
    assert set(recipe.plan) == {TECHNIQUE}
    assert recipe.changes_training is not None
    assert recipe.changes_training.technique == TECHNIQUE
    assert (recipe.speed, recipe.numerics) == (None, None)
    head = (out / "recipe.toml").read_text().splitlines()[:4]
    assert head[2] == "# It changes the training: 64 rows a step instead of 4."
    assert head[3] == "# Without [plan.batch_size] it is the training as it was."
    assert "A larger batch: another training" in (out / "report.md").read_text()
    assert "x as soon" in (out / "report.html").read_text()
