"""From the search's plan to one that is held to its claims, with what it is made of pretended."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hasten.records.curves import Curves
from hasten.records.plan import Plan, Rung
from hasten.records.progress import Phase
from hasten.records.recipe import Confirmation
from hasten.records.tuning import Aim, PartWeighed, PlanJudged, Spent, Worth
from hasten.records.verdict import Check, MemoryClaim, NumericsClaim, Verdict
from hasten.tune import settle as settling
from hasten.tune.conclude import conclude, proven_again
from hasten.tune.course import Course
from hasten.tune.journal import JOURNAL, Journal, Learnt
from hasten.tune.settle import Settled, Settler
from hasten.tune.spending import Stopwatch
from specimens import CONFIRMATION, CONTROL, NUMERICS, PROVEN, SPEED
from tunings import CURVES, PARITY

RUNGS = {"loader": Rung.BITWISE, "fused": Rung.ROUNDING, "half": Rung.PARITY}


def worth_of(plan: Plan, **ratios: float) -> tuple[Worth, ...]:
    return tuple(
        Worth(technique=name, ratio=ratio, low=0.99 * ratio, high=1.01 * ratio)
        for name in plan.parts
        for ratio in [ratios.get(name, 1.5)]
    )


@pytest.fixture
def phases() -> list[Phase | None]:
    """Those that were told, in their order."""
    return []


@pytest.fixture
def settle(
    monkeypatch: pytest.MonkeyPatch, phases: list[Phase | None], tmp_path: Path
) -> Callable[..., Settled]:
    def run(
        *parts: str,
        ratios: dict[str, float] | None = None,
        refuted: tuple[str, ...] = (),
        late: tuple[str, ...] = (),
        worth: tuple[Worth, ...] | None = None,
        against: Check | None = None,
        curves: Curves | None = None,
        learnt: Learnt | None = None,
    ) -> Settled:
        def prove(prover: object, lab: object, plan: Plan, *_: object) -> NumericsClaim:
            wrong = [name for name in plan.parts if name in refuted]
            spent = any(name in late for name in plan.parts)
            verdict: Verdict = "refuted" if wrong else "not_proven" if spent else "proven"
            name = "parity" if spent or "half" in wrong else "rounding"
            why = f"{wrong} trains worse"
            check = Check(name=name, verdict=verdict, why=why, short_of_time=spent)
            parity = PARITY if "half" in plan.parts else None
            return NumericsClaim(rung=Rung.PARITY, verdict=verdict, checks=(check,), parity=parity)

        def ablate(
            lab: object, plan: Plan, tell: Callable[[str], None], known: dict[str, Worth], note: Any
        ) -> tuple[Worth, ...]:
            tell("ablating")
            found = tuple(known.values()) or worth_of(plan, **(ratios or {}))
            for each in found:
                note(each)
            return found

        monkeypatch.setattr(settling, "prove_plan", prove)
        monkeypatch.setattr(settling, "ablate", ablate)

        def trainer(lab: object, plan: Plan, seed: int) -> object:
            return SimpleNamespace(train=lambda tell: CURVES, against=against)

        def confirm(lab: object, a: Plan, b: Plan, floor: float, tell: Any) -> Confirmation:
            tell("confirming")
            assert forgotten, "what proofs compared takes memory"
            return CONFIRMATION

        monkeypatch.setattr(settling, "confirm", confirm)
        monkeypatch.setattr(settling, "CurveTrainer", trainer)
        nothing: Any = None
        phases.clear()
        forgotten: list[bool] = []
        prover: Any = SimpleNamespace(seed=1, forget=lambda: forgotten.append(True))
        settler = Settler(
            nothing,
            prover,
            RUNGS,
            noise_floor=1.01,
            parity_s=1.0,
            aim=Aim(),
            watch=Stopwatch(),
            course=Course(lambda doing: phases.append(doing.phase)),
            journal=Journal(tmp_path, Stopwatch()),
            learnt=Learnt() if learnt is None else learnt,
        )
        return settler.settle(Plan(parts={name: {} for name in parts}), worth, curves)

    return run


Settle = Callable[..., Settled]


def test_a_plan_whose_parts_pay_and_hold_stays(settle: Settle) -> None:
    settled = settle("loader", "fused")
    assert list(settled.plan.parts) == ["loader", "fused"]
    assert [each.technique for each in settled.worth] == ["loader", "fused"]
    assert settled.dropped == {}
    assert settled.cut_short == ()


def test_a_part_without_which_the_plan_is_faster_is_dropped(settle: Settle) -> None:
    settled = settle("loader", "fused", ratios={"loader": 0.9})
    assert list(settled.plan.parts) == ["fused"]
    assert "faster without it" in settled.dropped["loader"]


def test_a_part_that_neither_pays_nor_costs_in_place_stays(settle: Settle) -> None:
    """It was faster when it was tried, and the noise hides what it is worth now."""
    assert "loader" in settle("loader", "fused", ratios={"loader": 1.0}).plan.parts


def test_a_precision_that_trains_worse_is_dropped_and_the_rest_is_proven(settle: Settle) -> None:
    settled = settle("loader", "half", refuted=("half",))
    assert list(settled.plan.parts) == ["loader"]
    assert settled.numerics.verdict == "proven"
    assert settled.dropped == {"half": "['half'] trains worse"}


def test_a_precision_that_more_time_might_have_proven_is_named(settle: Settle) -> None:
    settled = settle("loader", "half", late=("half",))
    assert list(settled.plan.parts) == ["loader"]
    assert settled.cut_short == ("half",)
    assert settle("loader", "half", refuted=("half",)).cut_short == ()


def test_a_precision_alone_that_trains_worse_is_refuted(settle: Settle) -> None:
    settled = settle("half", refuted=("half",))
    assert list(settled.plan.parts) == ["half"]
    assert settled.numerics.verdict == "refuted"


def test_what_steps_tell_is_laid_to_the_part_that_came_last(settle: Settle) -> None:
    settled = settle("loader", "fused", refuted=("fused",))
    assert list(settled.plan.parts) == ["loader"]
    assert settled.numerics.verdict == "proven"
    assert settled.dropped == {"fused": "['fused'] trains worse"}


def test_it_is_never_laid_to_a_precision_which_no_step_was_traced_in(settle: Settle) -> None:
    settled = settle("loader", "fused", "half", refuted=("fused",))
    assert list(settled.plan.parts) == ["loader", "half"]


def test_parts_are_dropped_until_the_rest_holds(settle: Settle) -> None:
    settled = settle("fused", "loader", "half", refuted=("fused", "half"))
    assert list(settled.plan.parts) == ["fused"]
    assert settled.numerics.verdict == "refuted", "the last one is kept, to be reported"
    assert settled.worth == (), "what does not hold is worth nothing"


def test_a_plan_that_lost_a_part_which_did_not_pay_is_proven_by_itself(settle: Settle) -> None:
    settled = settle("loader", "fused", "half", ratios={"loader": 0.9}, refuted=("half",))
    assert list(settled.plan.parts) == ["fused"]
    assert [each.technique for each in settled.worth] == ["fused"]


def test_an_earlier_recipe_that_no_longer_holds_is_not_cut_down(settle: Settle) -> None:
    known = worth_of(Plan(parts={"loader": {}, "fused": {}}))
    settled = settle("loader", "fused", worth=known, refuted=("fused",))
    assert list(settled.plan.parts) == ["loader", "fused"]
    assert settled.numerics.verdict == "refuted"


def test_worth_that_is_known_is_not_measured_again(settle: Settle) -> None:
    known = worth_of(Plan(parts={"loader": {}, "fused": {}}), loader=0.5)
    settled = settle("loader", "fused", worth=known)
    assert settled.worth == known
    assert settled.dropped == {}


def test_what_was_judged_and_weighed_before_a_stop_is_taken_over(
    settle: Settle, phases: list[Phase | None]
) -> None:
    whole, less = Plan(parts={"loader": {}, "fused": {}}), Plan(parts={"loader": {}})
    wrong = Check(name="rounding", verdict="refuted", why="it was another")
    refuted = replace(NUMERICS, verdict="refuted", checks=(wrong,))
    (worth,) = worth_of(less, loader=3.0)
    learnt = Learnt(
        judged=[PlanJudged(plan=whole, claim=refuted), PlanJudged(plan=less, claim=NUMERICS)],
        weighed=[PartWeighed(plan=less, worth=worth)],
    )
    settled = settle("loader", "fused", learnt=learnt)
    assert settled.dropped == {"fused": "it was another"}
    assert settled.numerics == NUMERICS
    assert settled.worth == (worth,)
    assert "proving" not in phases


def test_what_is_judged_and_weighed_is_written_down_at_once(settle: Settle, tmp_path: Path) -> None:
    settle("loader", "half", refuted=("half",))
    lines = [msgspec.json.decode(line) for line in (tmp_path / JOURNAL).read_bytes().splitlines()]
    noted = [(next(iter(line)), list(line[next(iter(line))]["plan"]["parts"])) for line in lines]
    assert noted == [
        ("planjudged", ["loader", "half"]),
        ("planjudged", ["loader"]),
        ("partweighed", ["loader"]),
    ]


def test_what_is_judged_and_weighed_is_known_to_the_search_that_may_follow(settle: Settle) -> None:
    """As it does where a recipe no longer holds: then the same plan may win again."""
    learnt, plan = Learnt(), Plan(parts={"loader": {}, "fused": {}})
    first = settle("loader", "fused", learnt=learnt)
    assert learnt.claim_of(plan) == first.numerics
    assert list(learnt.worth_of(plan)) == ["loader", "fused"]
    assert len(learnt.judged) == 1
    settle("loader", "fused", learnt=learnt)
    assert len(learnt.judged) == 1, "not judged twice"


def test_each_phase_is_told(settle: Settle, phases: list[Phase | None]) -> None:
    settle("loader", "half")
    assert phases == ["proving", "settling", "confirming"]
    settle("loader", "half", refuted=("half",))
    assert phases == ["proving", "proving", "settling", "confirming"]


def test_curves_are_trained_where_the_proof_has_none(settle: Settle) -> None:
    assert settle("loader").curves is CURVES
    assert settle("loader", "half").curves is None
    assert settle("loader", "half", refuted=("half",)).curves is CURVES
    known = replace(CURVES, steps=7)
    assert settle("loader", curves=known).curves is known, "proven again, of the same plan"


def test_curves_that_speak_against_a_plan_refute_it(settle: Settle) -> None:
    check = Check(name="parity", verdict="refuted", why="from seed 1 it diverges")
    settled = settle("loader", against=check)
    assert settled.numerics.verdict == "refuted"
    assert settled.numerics.why() == "from seed 1 it diverges"


SMALL = MemoryClaim(verdict="proven", a_bytes=100, b_bytes=60, allowed_bytes=None)


@pytest.mark.parametrize(
    ("speed", "memory", "aim", "holds"),
    [
        ("proven", None, Aim(), True),
        ("refuted", None, Aim(), False),
        ("refuted", SMALL, Aim(goal="memory"), True),
        ("refuted", None, Aim(goal="memory"), False),
        ("proven", SMALL, Aim(memory_bytes=80), True),
        ("proven", replace(SMALL, verdict="refuted"), Aim(memory_bytes=50), False),
        ("refuted", replace(SMALL, allowed_bytes=80), Aim(memory_bytes=80), True),
        ("refuted", replace(SMALL, allowed_bytes=200), Aim(memory_bytes=200), False),
    ],
)
def test_a_plan_is_held_to_what_it_was_made_for(
    speed: Verdict, memory: MemoryClaim | None, aim: Aim, holds: bool
) -> None:
    settled = Settled(
        plan=Plan(),
        worth=(),
        numerics=NUMERICS,
        curves=None,
        confirmation=CONFIRMATION,
        speed=replace(SPEED, verdict=speed),
        memory=memory,
        dropped={},
    )
    earlier = replace(PROVEN, plan=Plan(), aim=aim)
    again = proven_again(earlier, CONTROL, settled, Spent())
    assert (again is not None) is holds
    outcome, _, _ = conclude((), CONFIRMATION, settled.speed, NUMERICS, memory, aim)
    assert (outcome == "recipe") is holds
