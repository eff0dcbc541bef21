"""Pairs of fresh processes: how long each is compared, and what they come to together."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hasten.errors import HastenError
from hasten.measure.compare import LOOKS_S, Contest
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.measurement import Memory
from hasten.records.plan import NAIVE, Plan
from hasten.records.tuning import Aim
from hasten.records.verdict import Comparison
from hasten.stats.paired import Interval, pooled
from hasten.tune.confirm import (
    FIRST_S,
    MOST_PAIRS,
    PAIRS,
    claim_memory,
    claim_speed,
    confirm,
    measure_noise,
)
from specimens import make_comparison

FUSED = Plan(parts={"fused_optimizer": {}})
FLOOR = 1.02


class PretendingLab:
    """Gives the comparisons that it was told, one after the other, or fails."""

    seed = 0

    def __init__(self, *found: Comparison | Failed, outcome: Any = "done") -> None:
        self._found = list(found)
        self._applied = (Applied(technique="fused_optimizer", outcome=outcome, why="."),)
        self.asked: list[dict[str, Any]] = []

    def compare(self, a: Plan, b: Plan, **settings: Any) -> Contest:
        self.asked.append(settings)
        found = self._found.pop(0)
        if isinstance(found, Failed):
            raise WorkerFailure(found)
        return Contest(found, (), self._applied, Memory(), Memory())


def pair(low: float, ratio: float, high: float) -> Comparison:
    return msgspec.structs.replace(make_comparison(ratio), low=low, high=high)


def _confirm(lab: PretendingLab) -> Any:
    return confirm(lab, NAIVE, FUSED, FLOOR, lambda words: None)  # type: ignore[arg-type]


def test_the_first_pair_is_short_and_the_second_is_judged_together_with_it() -> None:
    lab = PretendingLab(pair(1.00, 1.05, 1.10), pair(0.99, 1.06, 1.09))
    _confirm(lab)
    first, second = lab.asked
    assert (first["limit_s"], first["earlier"]) == (FIRST_S, [])
    assert (second["limit_s"], second["earlier"]) == (LOOKS_S[-1], [Interval(1.05, 1.00, 1.10)])
    assert first["margin"] == second["margin"] == pytest.approx(FLOOR - 1)
    assert first["seed"] != second["seed"]


def test_pairs_that_agree_prove_what_none_does_alone() -> None:
    one = pair(1.015, 1.05, 1.085)
    lab = PretendingLab(*[one] * 3)
    speed = claim_speed(_confirm(lab), FLOOR)
    assert speed is not None
    assert speed.verdict == "proven"
    together = pooled([Interval(1.05, 1.015, 1.085)] * 3, offset=FLOOR - 1)
    assert (speed.low, speed.ratio, speed.high) == (together.low, together.ratio, together.high)
    assert one.low < FLOOR < speed.low
    third = lab.asked[2]
    assert (third["limit_s"], third["earlier"]) == (FIRST_S, []), "how pairs differ is what counts"


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([1.06, 1.72, 1.10, 1.42, 1.71, 1.15], "proven"),
        ([0.90, 1.70, 0.95, 1.20, 0.90, 1.70], "not_proven"),
    ],
)
def test_two_pairs_that_agree_by_luck_are_held_against_more(
    others: list[float], verdict: str
) -> None:
    """Each steady in itself, as processes of small networks are."""
    lab = PretendingLab(*[pair(0.99 * each, each, 1.01 * each) for each in (1.70, 1.69, *others)])
    speed = claim_speed(_confirm(lab), FLOOR)
    assert speed is not None
    assert speed.verdict == verdict
    assert speed.high / speed.low > 1.4, "it is as wide as they differ"
    asked = range(PAIRS + 3, MOST_PAIRS) if verdict == "proven" else [MOST_PAIRS]
    assert len(lab.asked) in asked


def test_a_loss_is_held_against_a_third_pair_too() -> None:
    lab = PretendingLab(*[pair(0.79, 0.80, 0.81)] * 3)
    speed = claim_speed(_confirm(lab), FLOOR)
    assert speed is not None
    assert speed.verdict == "refuted"
    assert len(lab.asked) == 3


def test_one_lucky_pair_proves_nothing() -> None:
    speed = claim_speed(
        _confirm(PretendingLab(pair(1.29, 1.30, 1.31), pair(1.00, 1.01, 1.02))), FLOOR
    )
    assert speed is not None
    assert speed.verdict == "not_proven"
    assert speed.low <= 1.01


def test_no_claim_where_a_pair_failed_or_a_technique_did_not_run() -> None:
    crashed = Failed(kind="crashed", what="It ended.")
    confirmation = _confirm(PretendingLab(pair(1.2, 1.3, 1.4), crashed, crashed))
    assert (len(confirmation.pairs), confirmation.failure) == (PAIRS - 1, "It ended.")
    assert claim_speed(confirmation, FLOOR) is None
    late = _confirm(PretendingLab(*[pair(1.2, 1.3, 1.4)] * PAIRS, crashed, crashed))
    assert (len(late.pairs), late.failure) == (PAIRS, "It ended.")
    assert claim_speed(late, FLOOR) is None
    fell_back = PretendingLab(*[pair(1.2, 1.3, 1.4)] * 3, outcome="fell_back")
    assert claim_speed(_confirm(fell_back), FLOOR) is None


def test_a_process_that_ends_once_costs_its_pair_and_no_more_than_that() -> None:
    crashed = Failed(kind="crashed", what="It ended (signal 9).")
    good = pair(1.2, 1.3, 1.4)
    confirmation = _confirm(PretendingLab(good, crashed, good, good))
    assert (len(confirmation.pairs), confirmation.failure) == (3, None)
    assert confirmation.begun_again == "It ended (signal 9)."
    speed = claim_speed(confirmation, FLOOR)
    assert speed is not None
    assert speed.verdict == "proven"
    hung = Failed(kind="hung", what="No answer.")
    assert _confirm(PretendingLab(good, hung, good)).failure == "No answer."


def test_a_control_that_ends_leaves_those_before_it() -> None:
    crashed = Failed(kind="crashed", what="It ended.")
    lab: Any = PretendingLab(make_comparison(1.3), crashed, crashed)
    assert [each.ratio for each in measure_noise(lab, NAIVE, print).runs] == [1.3]
    once: Any = PretendingLab(crashed, make_comparison(1.01))
    assert [each.ratio for each in measure_noise(once, NAIVE, print).runs] == [1.01]
    nothing: Any = PretendingLab(crashed, crashed)
    with pytest.raises(HastenError, match="It ended"):
        measure_noise(nothing, NAIVE, print)


@pytest.mark.parametrize(
    ("after", "goal", "allowed", "verdict"),
    [
        (979, "memory", None, "proven"),
        (981, "memory", None, "refuted"),
        (981, "speed", 1000, "proven"),
        (981, "speed", 980, "refuted"),
    ],
)
def test_what_lowers_the_peak_by_next_to_nothing_is_not_smaller(
    after: int, goal: Any, allowed: int | None, verdict: str
) -> None:
    lab: Any = SimpleNamespace(peak=lambda plan, anew: 1000 if plan == NAIVE else after)
    claim = claim_memory(lab, FUSED, Aim(goal=goal, memory_bytes=allowed))
    assert claim is not None
    assert claim.verdict == verdict


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_peak_is_measured_once_more_where_its_process_dies(deaths: int) -> None:
    left = [Failed(kind="crashed", what="It ended.")] * deaths

    def peak(plan: Plan, anew: bool) -> int:
        if left:
            raise WorkerFailure(left.pop())
        return 1000 if plan == NAIVE else 500

    lab: Any = SimpleNamespace(peak=peak)
    assert (claim_memory(lab, FUSED, Aim(goal="memory")) is not None) == (deaths == 1)


@pytest.mark.parametrize(
    ("ratios", "taken", "controls"),
    [
        ((1.04,), 1.04, 1),
        ((0.86, 1.01, 1.02), 1.02, 3),
        ((1.2, 0.8, 1.01), 1.2, 3),
    ],
)
def test_a_control_that_shows_much_is_not_taken_by_itself(
    ratios: tuple[float, ...], taken: float, controls: int
) -> None:
    lab = PretendingLab(*map(make_comparison, ratios))
    told: list[str] = []
    found = measure_noise(lab, NAIVE, told.append)  # type: ignore[arg-type]
    assert [each.ratio for each in found.runs] == list(ratios), "and all of them are kept"
    assert found.middle().ratio == taken
    assert len({each["seed"] for each in lab.asked}) == len(told) == controls
