"""The ratchet, with arms that only pretend: what is tried, on what, and how often."""

from typing import Any

import pytest
from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.measure.messages import Failed
from hasten.records.finding import Finding
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.trial import Outcome
from hasten.records.verdict import Comparison
from hasten.tune import rivals
from hasten.tune import search as searching
from hasten.tune.search import MOST_TRIES
from pretended_world import MakeWorld, by_parts, finding, offer, rows
from specimens import make_comparison


def test_each_change_is_tried_on_top_of_what_was_kept(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=1.5, b=2.0))
    search = here.search(offer("a"), offer("b"))
    assert search.plan == Plan(parts={"a": {}, "b": {}})
    assert here.compared == [("naive", "a"), ("a", "a + b")]
    assert search.best() == pytest.approx(3.0)
    assert [each.on for each in search.trials] == [NAIVE, Plan(parts={"a": {}})]


def test_what_is_not_faster_is_not_kept(world: MakeWorld) -> None:
    search = world(speed=by_parts(a=0.9)).search(offer("a"))
    assert (search.plan, rows(search)) == (NAIVE, [("a", "not_faster")])


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        (0.516, 91313865.443, "too noisy to tell"),
        (0.0, 14352263.528, "too noisy to tell"),
        (0.9, 1.2, "0.900x to 1.200x: not clear of the noise, 1.0 %"),
    ],
)
def test_noise_is_told_without_figures_that_tell_nothing(low: float, high: float, why: str) -> None:
    noisy = replace(make_comparison(), low=low, high=high, decision="undecided")
    assert searching._not_faster(noisy) == ("no_verdict", why)


def test_a_candidate_beside_which_the_best_plan_fails_has_not_failed(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise rivals.IncumbentFailure(Failed(kind="crashed", what="It ended.", detail="trace"))

    here = world(speed=by_parts(a=1.5))
    with monkeypatch.context() as failing:
        failing.setattr(rivals.Rivals, "meet", fail)
        (trial,) = here.search(offer("a")).trials
    assert (trial.outcome, trial.why) == (
        "no_verdict",
        "what it was compared with failed: It ended.",
    )
    assert trial.detail == "trace"
    assert not trial.tells()
    later = here.search(offer("a"), known={trial.key(): trial})
    assert rows(later) == [("a", "kept")], "another search tries it"
    assert here.notes[-1] is later.trials[0]


def test_all_chances_to_win_by_luck_share_the_error(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part may be tried twice, and what brings others without them too."""
    asked: list[float] = []
    here = world(speed=by_parts())

    def compare(*arms: Any, confidence: float, **settings: Any) -> Comparison:
        asked.append(confidence)
        return here.compare(*arms, **settings)

    monkeypatch.setattr(rivals, "compare", compare)
    here.search(replace(offer("a"), parts=({}, {"b": 1})), offer("c"))
    assert asked == [pytest.approx(1 - 0.01 / (3 * MOST_TRIES))] * 3


def test_what_is_faster_and_another_training_is_not_kept(world: MakeWorld) -> None:
    search = world(speed=by_parts(a=2.0, b=1.5), refuted="a").search(offer("a"), offer("b"))
    assert search.plan == Plan(parts={"b": {}})
    assert rows(search) == [("a", "refuted"), ("b", "kept")]


def test_after_a_gain_it_looks_again_at_what_costs_most(world: MakeWorld) -> None:
    """And what costs nothing any more is not answered."""

    def found(plan: Plan) -> list[Finding]:
        if "loader" in plan.parts:
            return [finding("launches", 3.0), finding("data", 1.001)]
        return [finding("data", 5.0), finding("optimizer", 1.5)]

    here = world(speed=by_parts(loader=2.0, graph=1.5, fused=1.2, workers=1.2), found=found)
    search = here.search(
        offer("loader", "data"),
        offer("workers", "data"),
        offer("fused", "optimizer"),
        offer("graph", "launches"),
    )
    assert rows(search) == [("loader", "kept"), ("workers", "below_noise"), ("graph", "kept")]
    assert here.compared == [("naive", "loader"), ("loader", "loader + graph")]


def test_what_did_not_pay_may_pay_on_another_plan(world: MakeWorld) -> None:
    def speed(plan: Plan) -> float:
        both = {"layout", "half"} <= set(plan.parts)
        return by_parts(layout=0.8, half=1.5)(plan) * (2.0 if both else 1.0)

    search = world(speed=speed).search(offer("layout"), offer("half"))
    assert rows(search) == [("layout", "not_faster"), ("half", "kept"), ("layout", "kept")]


def test_what_had_no_chance_yet_comes_before_what_had_one(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=0.9, b=1.5, c=1.5))
    search = here.search(offer("a"), offer("b"), offer("c"))
    assert rows(search) == [("a", "not_faster"), ("b", "kept"), ("c", "kept"), ("a", "not_faster")]


@pytest.mark.parametrize("count", [4, 8, 16])
def test_trials_grow_with_the_changes_and_no_faster(world: MakeWorld, count: int) -> None:
    names = [f"t{number}" for number in range(count)]
    here = world(speed=by_parts(**dict.fromkeys(names[1::2], 1.5)))
    here.search(*map(offer, names))
    assert len(here.compared) <= MOST_TRIES * count


def test_a_refuted_change_is_not_tried_again(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=2.0, b=1.5, c=1.5), refuted="a")
    search = here.search(offer("a"), offer("b"), offer("c"))
    assert [name for name, _ in rows(search)].count("a") == 1


def test_a_change_that_does_not_apply_is_tried_again_on_another_plan(world: MakeWorld) -> None:
    here = world(speed=by_parts(b=1.5), skipped="a")
    search = here.search(offer("a"), offer("b"))
    assert rows(search) == [("a", "not_tried"), ("b", "kept"), ("a", "not_tried")]
    assert search.trials[0].why == "a: skipped (cannot)"


def test_another_precision_is_kept_until_training_tells(world: MakeWorld) -> None:
    search = world(speed=by_parts(half=1.5)).search(offer("half", rung=Rung.PARITY))
    (trial,) = search.trials
    assert trial.outcome == "kept"
    assert trial.why == "faster; whether it trains as well is proven at the end"


def test_another_precision_has_to_be_worth_the_trainings_that_prove_it(world: MakeWorld) -> None:
    speed = by_parts(half=1.035, loader=1.035)
    search = world(speed=speed).search(offer("half", rung=Rung.PARITY), offer("loader"))
    assert rows(search)[:2] == [("loader", "kept"), ("half", "not_faster")]
    assert search.trials[1].why == "another precision has to gain 5 %"
    comparison = search.trials[1].comparison
    assert comparison is not None
    assert comparison.decision == "faster", "which is told"


def test_what_another_part_left_nothing_to_do_has_had_no_chance(world: MakeWorld) -> None:
    first = replace(offer("first"), instead_of=("late", "x"))
    second = replace(offer("second", rung=Rung.ROUNDING), instead_of=("first",))
    late, last = offer("late", rung=Rung.ROUNDING), offer("last", rung=Rung.ROUNDING)
    here = world(speed=by_parts(first=1.2, second=1.5, late=0.9, last=1.5))
    search = here.search(first, second, late, last)
    assert rows(search) == [
        ("first", "kept"),
        ("late", "not_tried"),
        ("second", "kept"),
        ("late", "not_faster"),
        ("last", "kept"),
        ("late", "not_faster"),
    ]


def test_what_an_earlier_search_has_tried_is_not_tried_again(world: MakeWorld) -> None:
    first = world(speed=by_parts(a=1.5, c=2.0))
    stopped = first.search(offer("a"), offer("b")).trials
    again = world(speed=by_parts(a=1.5, c=2.0))
    search = again.search(
        offer("a"), offer("b"), offer("c"), known={each.key(): each for each in stopped}
    )
    assert search.plan == Plan(parts={"a": {}, "c": {}})
    assert again.compared == [("a", "a + c"), ("a + c", "a + c + b")]
    assert [each.candidate.technique for each in again.notes] == ["c", "b"], "the new ones only"


def test_a_plan_that_cannot_be_looked_at_keeps_the_findings_of_before(world: MakeWorld) -> None:
    def found(plan: Plan) -> list[Finding]:
        if plan.parts:
            raise HastenError("The profiler failed.", fix="")
        return [finding("slow")]

    here = world(speed=by_parts(a=1.5, b=1.5), found=found)
    search = here.search(offer("a"), offer("b"))
    assert search.plan == Plan(parts={"a": {}, "b": {}})
    assert any("The profiler failed." in words for words in here.told)


@pytest.mark.parametrize("outcome", ["out_of_time", "below_noise", "not_tried"])
def test_what_an_earlier_search_did_not_run_is_run_now(world: MakeWorld, outcome: Outcome) -> None:
    """Its time was spent, or its noise was higher."""
    here = world(speed=by_parts(a=1.5))
    (ran,) = here.search(offer("a")).trials
    unrun = replace(ran, outcome=outcome, comparison=None, numerics=None)
    again = world(speed=by_parts(a=1.5))
    search = again.search(offer("a"), known={unrun.key(): unrun})
    assert rows(search) == [("a", "kept")]
    assert again.notes == search.trials, "and the journal has it"
