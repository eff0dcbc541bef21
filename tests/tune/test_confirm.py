"""Pairs of fresh processes: how long each is compared, and what they come to together."""

from typing import Any

import msgspec
import pytest

from hasten.measure.compare import LOOKS_S, Contest
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.measurement import Memory
from hasten.records.plan import NAIVE, Plan
from hasten.records.verdict import Comparison
from hasten.stats.paired import Interval, pooled
from hasten.tune.confirm import FIRST_S, PAIRS, claim_speed, confirm
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
        return Contest(found, self._applied, Memory(), Memory())


def pair(low: float, ratio: float, high: float) -> Comparison:
    return msgspec.structs.replace(make_comparison(ratio), low=low, high=high)


def _confirm(lab: PretendingLab) -> Any:
    return confirm(lab, NAIVE, FUSED, FLOOR, lambda words: None)  # type: ignore[arg-type]


def test_the_first_pair_is_short_and_the_second_is_judged_together_with_it() -> None:
    lab = PretendingLab(pair(1.00, 1.05, 1.10), pair(1.03, 1.06, 1.09))
    _confirm(lab)
    first, second = lab.asked
    assert (first["limit_s"], first["earlier"]) == (FIRST_S, [])
    assert (second["limit_s"], second["earlier"]) == (LOOKS_S[-1], [Interval(1.05, 1.00, 1.10)])
    assert first["margin"] == second["margin"] == pytest.approx(FLOOR - 1)
    assert first["seed"] != second["seed"]


def test_two_pairs_that_agree_prove_what_neither_does_alone() -> None:
    one, other = pair(1.015, 1.05, 1.085), pair(1.015, 1.05, 1.085)
    speed = claim_speed(_confirm(PretendingLab(one, other)), FLOOR)
    assert speed is not None
    assert speed.verdict == "proven"
    together = pooled([Interval(1.05, 1.015, 1.085)] * 2, offset=FLOOR - 1)
    assert (speed.low, speed.ratio, speed.high) == (together.low, together.ratio, together.high)
    assert one.low < FLOOR < speed.low


def test_one_lucky_pair_proves_nothing() -> None:
    speed = claim_speed(
        _confirm(PretendingLab(pair(1.29, 1.30, 1.31), pair(1.00, 1.01, 1.02))), FLOOR
    )
    assert speed is not None
    assert speed.verdict == "not_proven"
    assert speed.low <= 1.01


def test_no_claim_where_a_pair_failed_or_a_technique_did_not_run() -> None:
    crashed = Failed(kind="crashed", what="It ended.")
    confirmation = _confirm(PretendingLab(pair(1.2, 1.3, 1.4), crashed))
    assert (len(confirmation.pairs), confirmation.failure) == (PAIRS - 1, "It ended.")
    assert claim_speed(confirmation, FLOOR) is None
    fell_back = PretendingLab(*[pair(1.2, 1.3, 1.4)] * PAIRS, outcome="fell_back")
    assert claim_speed(_confirm(fell_back), FLOOR) is None
