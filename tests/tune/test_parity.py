"""What pairs of seeds decide, and what they do not."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hasten.measure.lab import Lab
from hasten.measure.messages import Failed, SeedTrained
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.applied import Applied
from hasten.records.curves import SeedCurve
from hasten.records.parity import SeedPair
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.tuning import PairTrained
from hasten.records.verdict import Check, NumericsClaim
from hasten.stats.equivalence import LOOKS
from hasten.tune import parity
from hasten.tune.parity import (
    USUAL_SEEDS,
    ParityProver,
    compare,
    decide,
    judge_pair,
    prove_steps,
)
from hasten.tune.seeds import LEAST_STEPS, seed_to_train, train_together

TASKS = Path(__file__).parents[1] / "tasks"

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
        device="cpu",
    )


@pytest.mark.parametrize(
    ("naive", "plan", "verdict"),
    [
        (_trained(), _trained(), None),
        (_trained(), _trained(outcome="fell_back"), "not_proven"),
        (_trained(), _trained(start="b"), "refuted"),
        (_trained(), _trained(losses=(*FALLING[:50], None, *FALLING[51:])), "refuted"),
        (_trained(figures={"loss": 0.5}), _trained(figures={"loss": None}), "refuted"),
        (_trained(figures={"loss": 0.5}), _trained(), "not_proven"),
        (_trained(), _trained(figures={"loss": 0.5}), "not_proven"),
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
    assert alike.why.startswith(
        "4 seeds of 100 steps: training loss, naive 1.012, differs by +0.0005 ("
    )
    assert apart is not None
    assert apart.verdict == "refuted"
    assert _decide(0.1, -0.1, 0.05, 0.0) is None
    assert decide([], "4 seeds of 100 steps") is None, "nothing was compared"


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


def test_a_proof_that_goes_on_is_looked_at_where_it_is_planned_only() -> None:
    """The error is shared by one look between two of these; who goes on and on would have many."""
    whole = Pretended(noise=0.4, time_for=100)
    whole.prove(lambda message: None)
    assert whole.parity is not None
    done = [PairTrained(plan=NAIVE, steps=100, pair=each) for each in whole.parity.pairs]
    at_once = Pretended(noise=0.4, time_for=13).prove(lambda message: None)
    later = Pretended(noise=0.4, time_for=13, trained=done[:11])
    check = later.prove(lambda message: None)
    assert (at_once.verdict, check.verdict) == ("proven", "not_proven")
    assert check.short_of_time
    assert "margin" in check.why
    at_last = Pretended(noise=0.4, time_for=100, trained=done[:13]).prove(lambda message: None)
    assert at_last.verdict == "proven"


class Dying(Pretended):
    """A process of it ends after so many pairs, each time that it is begun."""

    def __init__(self, *after: int) -> None:
        super().__init__(noise=0.01, time_for=100)
        self._after = list(after)
        self._lab = SimpleNamespace(worker=nullcontext)

    prove = ParityProver.prove

    def _add_pair(self, naive: object, plan: object) -> None:
        if self._after and len(self._pairs) == self._after[0]:
            self._after.pop(0)
            raise WorkerFailure(Failed(kind="crashed", what="It ended."))
        super()._add_pair(naive, plan)


def test_a_proof_in_which_a_process_dies_goes_on_from_its_seed_once() -> None:
    told: list[str] = []
    prover = Dying(2)
    assert prover.prove(told.append).verdict == "proven"
    assert prover.parity is not None
    assert [each.seed for each in prover.parity.pairs] == [0, 1, 2, 3]
    assert told == [f"training seed {each} both ways" for each in (1, 2, 3, 3, 4)]
    again = Dying(1, 1).prove(told.append)
    assert (again.verdict, again.why) == ("not_proven", "It ended.")


class TimedSeeds(ParityProver):
    """Each training takes half a second of a clock that is pretended."""

    def _train(self, sides: list[tuple[Worker, Plan]], seed: int) -> list[SeedTrained]:
        self._began -= 0.5 * len(sides)
        return [_trained(figures={"loss": float(seed)}) for _ in sides]


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


class SlowSteps(ParityProver):
    """A step takes a second of a clock that is pretended."""

    asked: list[int | None]

    def _train(self, sides: list[tuple[Worker, Plan]], seed: int) -> list[SeedTrained]:
        self.asked.append(self._steps)
        steps = self._steps or int(self._limit_s / (2 * USUAL_SEEDS))
        parity.time.pass_by(float(steps))  # type: ignore[attr-defined]
        trained = _trained(losses=(1.0,) * steps, figures={"loss": 1.0})
        return [replace(trained, elapsed_s=float(steps)) for _ in sides]


@pytest.mark.parametrize(
    ("limit_s", "asked"),
    [
        (100.0 * 16, [None, 100]),
        (90.0 * 16, [None, LEAST_STEPS, 100]),
        (40.0 * 16, [None]),
    ],
    ids=["enough for eight seeds", "enough for four", "not even for four"],
)
def test_a_training_of_slow_steps_is_given_as_many_as_it_needs_if_four_seeds_fit(
    limit_s: float, asked: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Any = None
    clock = [0.0]

    class Time:
        monotonic = staticmethod(lambda: clock[0])

        @staticmethod
        def pass_by(seconds: float) -> None:
            clock[0] += seconds

    monkeypatch.setattr(parity, "time", Time)
    prover = SlowSteps(nothing, NAIVE, 0, limit_s)
    prover.asked = []
    prover._add_pair(nothing, nothing)
    assert prover.asked == asked


def test_a_pair_that_decides_is_not_noted_since_the_verdict_is() -> None:
    class Diverges(TimedSeeds):
        def _train(self, sides: list[tuple[Worker, Plan]], seed: int) -> list[SeedTrained]:
            return [_trained(losses=(None,) * 100 if p.parts else FALLING) for _, p in sides]

    nothing: Any = None
    noted: list[PairTrained] = []
    prover = Diverges(nothing, Plan(parts={"t": {}}), 0, 9.0, note=noted.append)
    assert prover._prove(nothing, nothing, lambda message: None).verdict == "refuted"
    assert noted == []


def test_seeds_that_train_at_the_same_time_come_to_the_same() -> None:
    requests = [
        seed_to_train(f"{TASKS}/faulty.py:small", plan, seed=3, steps=5, steps_s=1.0)
        for plan in (NAIVE, Plan(parts={"batched_loader": {}}))
    ]
    with Lab(f"{TASKS}/faulty.py:small", seed=0) as lab, lab.worker() as one, lab.worker() as other:
        together = train_together(list(zip((one, other), requests, strict=True)), limit_s=120.0)
        (alone,) = train_together([(other, requests[0])], limit_s=120.0)
        assert [each.losses for each in together] == [alone.losses] * 2
        assert alone.device == "cpu"
        crashing = seed_to_train(
            f"{TASKS}/faulty.py:small", Plan(parts={"killed": {}}), seed=3, steps=5, steps_s=1.0
        )
        with pytest.raises(WorkerFailure, match="signal 9"):
            train_together([(one, crashing), (other, requests[1])], limit_s=120.0)
        (after,) = train_together([(other, requests[0])], limit_s=120.0)
        assert after.losses == alone.losses, "its answer of before was read"


class OnADevice(ParityProver):
    """Notes how many sides are trained at a time, on a device with room for so many."""

    def __init__(self, device: str, room: int, trained: Sequence[PairTrained] = ()) -> None:
        nothing: Any = None
        super().__init__(nothing, Plan(parts={"t": {}}), 0, 60.0, trained)
        self._device, self._room = device, room
        self.at_a_time: list[int] = []

    def _train(self, sides: list[tuple[Worker, Plan]], seed: int) -> list[SeedTrained]:
        if len(sides) > self._room:
            raise WorkerFailure(Failed(kind="out_of_memory", what="no room"))
        self.at_a_time.append(len(sides))
        return [replace(_trained(figures={"loss": 1.0}), device=self._device) for _ in sides]


@pytest.mark.parametrize(
    ("device", "room", "at_a_time"),
    [
        ("cpu", 2, [1, 1, 1, 1, 1, 1]),
        ("cuda", 2, [1, 1, 2, 2]),
        ("cuda", 1, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_both_sides_train_at_the_same_time_on_a_device_that_has_room(
    device: str, room: int, at_a_time: list[int]
) -> None:
    nothing: Any = None
    prover = OnADevice(device, room)
    for _ in range(3):
        assert prover._add_pair(nothing, nothing) is None
    assert prover.at_a_time == at_a_time
    assert prover.parity is not None
    again = [PairTrained(plan=NAIVE, steps=100, pair=each) for each in prover.parity.pairs]
    resumed = OnADevice(device, room, again)
    for _ in range(2):
        resumed._add_pair(nothing, nothing)
    assert sum(resumed.at_a_time) == 4
    assert resumed.at_a_time[-1] == at_a_time[-1]


def test_what_fails_for_another_reason_is_not_tried_again_alone() -> None:
    class Crashes(OnADevice):
        def _train(self, sides: list[tuple[Worker, Plan]], seed: int) -> list[SeedTrained]:
            if len(sides) == 2:
                raise WorkerFailure(Failed(kind="crashed", what="gone"))
            return super()._train(sides, seed)

    nothing: Any = None
    prover = Crashes("cuda", 2)
    prover._add_pair(nothing, nothing)
    with pytest.raises(WorkerFailure, match="gone"):
        prover._add_pair(nothing, nothing)
    assert prover.at_a_time == [1, 1]


def test_what_steps_show_of_a_plan_in_another_precision_is_said_to_be_without_it() -> None:
    """They are traced so; only the start is that of the whole plan."""

    class Traced:
        def prove(self, plan: Plan, rung: Rung, *, judged: Plan, **_: object) -> NumericsClaim:
            assert judged == Plan(parts={"compile": {}})
            checks = [
                Check(name=name, verdict="proven", why="it holds")
                for name in ("start", "rounding", "randomness")
            ]
            return NumericsClaim(rung=rung, verdict="proven", checks=tuple(checks))

    prover: Any = Traced()
    rungs = {"compile": Rung.ROUNDING, "mixed_precision": Rung.PARITY}
    plan = Plan(parts={"mixed_precision": {}, "compile": {}})
    claim = prove_steps(prover, plan, rungs)
    assert claim.rung is Rung.PARITY
    assert [each.why for each in claim.checks] == [
        "it holds",
        "without mixed_precision: it holds",
        "without mixed_precision: it holds",
    ]
