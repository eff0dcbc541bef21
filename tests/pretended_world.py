"""Arms that only pretend, for the search: how fast plans are, and what is found of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from hasten.records.applied import Applied
from hasten.records.finding import Finding
from hasten.records.measurement import Memory
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.trial import Offer, Trial
from hasten.records.tuning import FASTER, Aim
from hasten.records.verdict import Check, Comparison, NumericsClaim, Verdict
from hasten.stats.paired import Interval, decide
from hasten.tune.search import Search
from specimens import make_comparison

FLOOR = 1.02


def finding(code: str, bound: float = 2.0) -> Finding:
    return Finding(code=code, title=code, advice="", place=None, cost_s=0.1, bound=bound)


def offer(technique: str, answers: str = "slow", rung: Rung = Rung.BITWISE) -> Offer:
    return Offer(
        technique=technique,
        rung=rung,
        answers=(answers,),
        parts=({},),
        changes_data=False,
        slow_to_prepare=False,
        refusal=None,
    )


class PretendedArm:
    """Of a plan; it is its own worker."""

    state = None
    has_failed = False

    def __init__(self, plan: Plan, skipped: str | None) -> None:
        self.plan = plan
        self.worker = self
        applied = Applied(technique=str(skipped), outcome="skipped", why="cannot")
        self.applied = (applied,) if skipped in plan.parts else ()

    def fell_back(self) -> Applied | None:
        return self.applied[0] if self.applied else None

    def read(self) -> Memory:
        return Memory()

    def pause(self) -> None: ...
    def close(self) -> None: ...


@dataclass
class World:
    """How fast plans are, and what is found of them."""

    speed: Callable[[Plan], float]
    found: Callable[[Plan], Sequence[Finding]] = lambda plan: [finding("slow")]
    refuted: str | None = None
    skipped: str | None = None
    seconds_left: float = 100.0
    look_s: float = 0.0
    aim: Aim = FASTER
    size: Callable[[Plan], int] = lambda plan: 100
    notes: list[Any] = field(default_factory=list)
    compared: list[tuple[str, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def arms(self, *plans: Plan, **_: object) -> list[PretendedArm]:
        return [PretendedArm(plan, self.skipped) for plan in plans]

    def close_workers(self) -> None: ...

    def peak(self, plan: Plan) -> int:
        return self.size(plan)

    def compare(
        self, a: PretendedArm, b: PretendedArm, *, margin: float, limit_s: float, **_: object
    ) -> Comparison:
        self.compared.append((str(a.plan), str(b.plan)))
        self.limits.append(limit_s)
        made = make_comparison(self.speed(b.plan) / self.speed(a.plan))
        decision = decide(Interval(made.ratio, made.low, made.high), margin)
        return replace(made, margin=margin, decision=decision)

    def prove(self, prover: object, plan: Plan, rungs: object, **_: object) -> NumericsClaim:
        verdict: Verdict = "refuted" if self.refuted in plan.parts else "proven"
        check = Check(name="rounding", verdict=verdict, why=f"{verdict} here")
        return NumericsClaim(rung=Rung.ROUNDING, verdict=verdict, checks=(check,))

    def search(self, *offers: Offer, known: Mapping[str, Trial] | None = None) -> Search:
        made = Search(
            self,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            offers,
            {each.technique: each.rung for each in offers},
            noise_floor=FLOOR,
            deadline=time.monotonic() + self.seconds_left,
            diagnose=self.found,
            note=self.notes.append,
            known=known or {},
            aim=self.aim,
            look_s=self.look_s,
        )
        made.run(self.found(NAIVE), self.told.append)
        return made


MakeWorld = Callable[..., World]


def by_parts(**factors: float) -> Callable[[Plan], float]:
    """Each part makes a plan so many times faster, whatever else is in it."""

    def speed(plan: Plan) -> float:
        product = 1.0
        for name in plan.parts:
            product *= factors.get(name, 1.0)
        return product

    return speed


def rows(search: Search) -> list[tuple[str, str]]:
    return [(each.candidate.technique, each.outcome) for each in search.trials]


def smaller_by(**bytes_less: int) -> Callable[[Plan], int]:
    return lambda plan: 100 - sum(bytes_less.get(name, 0) for name in plan.parts)


def limited(allowed: int) -> Aim:
    return Aim(memory_bytes=allowed)
