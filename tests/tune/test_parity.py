"""What pairs of seeds decide, and what they do not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from hasten.measure.messages import SeedTrained
from hasten.records.applied import Applied
from hasten.records.curves import SeedCurve
from hasten.records.parity import SeedPair
from hasten.records.plan import NAIVE, Plan
from hasten.records.tuning import PairTrained
from hasten.records.verdict import Check
from hasten.stats.equivalence import LOOKS
from hasten.tune.parity import ParityProver, compare, decide, judge_pair

FALLING = tuple(2.0 - 0.01 * step for step in range(100))
DONE = Applied(technique="mixed_precision", outcome="done", why="bf16 autocast")


def _trained(
    losses: tuple[float | None, ...] = FALLING,
    start: str = "a",
    figures: dict[str, float | None] | None = None,
    outcome: str = "done",
) -> SeedTrained:
    applied = Applied(technique="t", outcome=outcome, why="so")  # type: ignore[arg-type]
    return SeedTrained(
        start={"weight": start},
        losses=losses,
        figures=figures or {},
        applied=(applied,),
        elapsed_s=1.0,
    )


@pytest.mark.parametrize(
    ("naive", "plan", "verdict"),
    [
        (_trained(), _trained(), None),
        (_trained(), _trained(outcome="fell_back"), "not_proven"),
        (_trained(), _trained(start="b"), "refuted"),
        (_trained(), _trained(losses=(*FALLING[:50], None, *FALLING[51:])), "refuted"),
        (_trained(), _trained(figures={"loss": None}), "refuted"),
        (_trained(losses=(None,) * 100), _trained(), "not_proven"),
        (_trained(), _trained(losses=tuple(2.0 + 0.05 * step for step in range(100))), "refuted"),
    ],
)
def test_one_seed_can_refute_and_never_prove(
    naive: SeedTrained, plan: SeedTrained, verdict: str | None
) -> None:
    check = judge_pair(naive, plan, seed=3)
    assert (None if check is None else check.verdict) == verdict


def _pairs(*shifts: float, spread: float = 0.1) -> list[SeedPair]:
    values = [1.0, 1.0 + spread, 1.0 - spread, 1.0 + spread / 2]
    return [
        SeedPair(
            seed=seed,
            naive=SeedCurve(losses=(), figures={"training loss": value, "accuracy": 0.9}),
            plan=SeedCurve(losses=(), figures={"training loss": value + shift, "accuracy": 0.9}),
        )
        for seed, (value, shift) in enumerate(zip(values, shifts, strict=True))
    ]


def _decide(*shifts: float) -> Check | None:
    return decide(compare(_pairs(*shifts)), "4 seeds of 100 steps")


def test_all_figures_must_be_alike_and_one_may_refute() -> None:
    alike, apart = _decide(0.001, -0.001, 0.002, 0.0), _decide(2.0, 2.01, 1.99, 2.0)
    assert alike is not None
    assert alike.verdict == "proven"
    assert alike.why.startswith("4 seeds of 100 steps: training loss 1.012 differs by +0.0005 (")
    assert apart is not None
    assert apart.verdict == "refuted"
    assert _decide(0.1, -0.1, 0.05, 0.0) is None


class Pretended(ParityProver):
    """Adds pairs that differ by nothing but noise, until its time is spent."""

    def __init__(self, *, noise: float, time_for: int, trained: Sequence[PairTrained] = ()) -> None:
        nothing: Any = None
        super().__init__(nothing, NAIVE, seed=0, limit_s=1.0, trained=trained)
        self._noise, self._time_for = noise, time_for

    def prove(self, tell: Callable[[str], None]) -> Check:
        nothing: Any = None
        return self._prove(nothing, nothing, tell)

    def _is_spent(self) -> bool:
        return len(self._pairs) >= self._time_for

    def _add_pair(self, naive: object, plan: object) -> None:
        rng = np.random.default_rng(len(self._pairs))
        value, shift = 1.0 + 0.1 * rng.standard_normal(2) * (1.0, self._noise) - (0.0, 1.0)
        sides = [SeedCurve(losses=(), figures={"loss": each}) for each in (value, value + shift)]
        self._pairs.append(SeedPair(seed=len(self._pairs), naive=sides[0], plan=sides[1]))


@pytest.mark.parametrize(
    ("noise", "time_for", "verdict", "seeds"),
    [
        (0.01, 100, "proven", 4),
        (0.4, 100, "proven", 16),
        (0.4, 13, "proven", 13),
        (1.5, 13, "not_proven", 13),
        (0.01, 3, "not_proven", 3),
        (5.0, 100, "not_proven", 64),
    ],
)
def test_seeds_are_trained_until_it_is_decided_or_time_ends_it(
    noise: float, time_for: int, verdict: str, seeds: int
) -> None:
    prover = Pretended(noise=noise, time_for=time_for)
    check = prover.prove(lambda message: None)
    assert prover.parity is not None
    assert (check.verdict, len(prover.parity.pairs)) == (verdict, seeds)
    assert ("the time was spent" in check.why) == (verdict == "not_proven" and seeds < LOOKS[-1])
    assert "margin" in check.why or seeds < LOOKS[0]


@pytest.mark.parametrize("stopped_after", [1, 4, 11, 16])
def test_a_proof_that_was_stopped_goes_on_with_the_next_seed(stopped_after: int) -> None:
    whole = Pretended(noise=0.4, time_for=100)
    expected = whole.prove(lambda message: None)
    assert whole.parity is not None
    done = [
        PairTrained(plan=NAIVE, steps=100, pair=each) for each in whole.parity.pairs[:stopped_after]
    ]
    told: list[str] = []
    prover = Pretended(noise=0.4, time_for=100, trained=done)
    check = prover.prove(told.append)
    assert prover.parity is not None
    assert prover.parity.pairs == whole.parity.pairs
    assert told == [f"training seed {n} both ways" for n in range(stopped_after + 1, 17)]
    assert (check.verdict, expected.verdict) == ("proven", "proven")


class TimedSeeds(ParityProver):
    """Each training takes half a second of a clock that is pretended."""

    def _train(self, worker: object, plan: Plan, seed: int) -> SeedTrained:
        self._began -= 0.5
        return _trained(figures={"loss": float(seed)})


def test_the_time_of_a_proof_that_goes_on_is_its_own_and_each_pair_is_noted() -> None:
    nothing: Any = None
    noted: list[PairTrained] = []
    first = TimedSeeds(nothing, NAIVE, 0, 3.4, note=noted.append)
    assert first._prove(nothing, nothing, lambda message: None).verdict == "not_proven"
    assert [each.pair.seed for each in noted] == [0, 1, 2], "what 3.4 s are enough for"
    second = TimedSeeds(nothing, NAIVE, 0, 3.4, trained=noted[:], note=noted.append)
    second._prove(nothing, nothing, lambda message: None)
    assert [each.pair.seed for each in noted][:4] == [0, 1, 2, 3]
    assert {each.steps for each in noted} == {100}


def test_a_pair_that_decides_is_not_noted_since_the_verdict_is() -> None:
    class Diverges(TimedSeeds):
        def _train(self, worker: object, plan: Plan, seed: int) -> SeedTrained:
            return _trained(losses=(None,) * 100 if plan.parts else FALLING)

    nothing: Any = None
    noted: list[PairTrained] = []
    prover = Diverges(nothing, Plan(parts={"t": {}}), 0, 9.0, note=noted.append)
    assert prover._prove(nothing, nothing, lambda message: None).verdict == "refuted"
    assert noted == []
