"""A search that memory bounds, or is for."""

from typing import Any

import pytest
from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import Plan
from hasten.records.tuning import Aim
from hasten.tune.rivals import IncumbentFailure, Meeting, Rivals
from pretended_world import MakeWorld, by_parts, limited, offer, rows, smaller_by
from specimens import make_comparison

SLOW = by_parts(pieces=0.8, recompute=0.9, fused=1.5)


def test_for_memory_what_is_smaller_is_kept_though_it_is_slower(world: MakeWorld) -> None:
    here = world(speed=SLOW, size=smaller_by(recompute=40, pieces=1), aim=Aim(goal="memory"))
    search = here.search(
        offer("recompute", "memory-peak"), offer("pieces", "memory-peak"), offer("fused")
    )
    assert rows(search) == [("recompute", "kept"), ("pieces", "not_smaller")]
    assert search.peak_bytes == 60
    assert search.trials[1].why == "a peak of 59 B, and 60 B without it"


def test_a_limit_that_naive_is_under_only_keeps_out_what_is_too_large(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=1.5, fused=1.5), size=smaller_by(a=-50), aim=limited(120))
    search = here.search(offer("a"), offer("fused"), offer("recompute", "memory-peak"))
    assert rows(search) == [("a", "too_large"), ("fused", "kept")]
    assert search.trials[0].why == "a peak of 150 B, where 120 B are allowed"


def test_a_limit_that_naive_is_over_is_met_first_and_no_further(world: MakeWorld) -> None:
    here = world(speed=SLOW, size=smaller_by(recompute=40, pieces=20), aim=limited(70))
    search = here.search(
        offer("fused"), offer("recompute", "memory-peak"), offer("pieces", "memory-peak")
    )
    assert rows(search) == [("recompute", "kept"), ("fused", "kept")]
    assert search.plan == Plan(parts={"recompute": {}, "fused": {}})


def test_a_peak_that_cannot_be_measured_is_an_error_in_words(world: MakeWorld) -> None:
    def fail(plan: Plan) -> int:
        raise WorkerFailure(Failed(kind="crashed", what="The training raised: no."))

    here = world(speed=by_parts(), size=fail, aim=Aim(goal="memory"))
    with pytest.raises(HastenError, match="The training raised: no"):
        here.search(offer("a"))


def test_what_kills_the_best_plan_leaves_others_their_turn(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that has the kernel kill it for want of memory."""
    here = world(speed=by_parts(), size=smaller_by(a=40, b=40), aim=Aim(goal="memory"))

    def meet(self: object, incumbent: Plan, rival: Plan, terms: object) -> Meeting:
        if "b" in rival.parts:
            raise IncumbentFailure(Failed(kind="crashed", what="It ended."))
        return Meeting(make_comparison(), ())

    monkeypatch.setattr(Rivals, "meet", meet)
    search = here.search(offer("b", "memory-peak"), offer("a", "memory-peak"))
    assert rows(search) == [("b", "no_verdict"), ("a", "kept"), ("b", "no_verdict")]


def test_what_was_found_for_one_aim_is_not_taken_for_the_other_after_a_stop(
    world: MakeWorld,
) -> None:
    both = replace(offer("both"), answers=("slow", "memory-peak"))
    settings: Any = {"speed": by_parts(both=1.5), "size": smaller_by(both=1), "aim": limited(99)}
    here = world(**settings)
    whole = here.search(both)
    assert rows(whole) == [("both", "not_smaller"), ("both", "kept")]
    for stopped_after in (1, 2):
        known = {each.key(): each for each in here.notes[:stopped_after]}
        again = world(**settings)
        assert rows(again.search(both, known=known)) == rows(whole)
        noted = [*here.notes[:stopped_after], *again.notes]
        assert [each.outcome for each in noted] == ["not_smaller", "kept"], "each of them once"


def test_what_is_no_smaller_may_still_be_faster(world: MakeWorld) -> None:
    both = replace(offer("both"), answers=("memory-peak", "slow"))
    speed = by_parts(both=1.5, recompute=0.9)
    here = world(speed=speed, size=smaller_by(recompute=40), aim=limited(70))
    search = here.search(both, offer("recompute", "memory-peak"))
    assert rows(search) == [("both", "not_smaller"), ("recompute", "kept"), ("both", "kept")]
    again = here.search(
        both,
        offer("recompute", "memory-peak"),
        known={each.key(): each for each in search.trials if each.outcome == "not_smaller"},
    )
    assert rows(again) == rows(search)
