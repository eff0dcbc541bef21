"""What a tuning learns on its way, beside its trials."""

import math
from typing import Literal

from hasten.records.environment import Environment
from hasten.records.finding import Finding
from hasten.records.measurement import Measurement
from hasten.records.parity import SeedPair
from hasten.records.plan import Plan
from hasten.records.profile import Limit
from hasten.records.record import Record, digest_of
from hasten.records.scan import CodeCost
from hasten.records.traits import Traits
from hasten.records.verdict import MemoryClaim, NumericsClaim


class Aim(Record, frozen=True, kw_only=True):
    """What a tuning is after."""

    goal: Literal["speed", "memory"] = "speed"
    """Faster steps; or a lower peak of memory, whatever the steps take then."""
    memory_bytes: int | None = None
    """The most that the tensors of a step may take at once; None for no limit."""

    def minds_memory(self) -> bool:
        return self.goal == "memory" or self.memory_bytes is not None

    def leaves_pace_open(self, memory: MemoryClaim | None) -> bool:
        """Whether a plan with this claim may be slower, and is no less what was asked for."""
        return self.goal == "memory" or (memory is not None and memory.made_room())


FASTER = Aim()


class Subject(Record, frozen=True, kw_only=True):
    """What is tuned: what was learnt of the same one holds again."""

    task: str
    seed: int
    hasten: str
    environment: Environment
    traits: Traits
    sources: dict[str, str]
    """Digests of the files in which the task, its model and all else of the user's own is written
    that they import."""
    aim: Aim = FASTER

    def digest(self) -> str:
        return digest_of(self)


class Diagnosed(Record, frozen=True, kw_only=True):
    """Where the time of a step goes under a plan, and why."""

    plan: Plan
    measurement: Measurement
    limit: Limit
    why: str
    findings: tuple[Finding, ...]
    peak_bytes: int | None
    """Of tensors, at the peak of a step; None where it could not be followed."""
    code: tuple[CodeCost, ...] = ()
    """What a scan of the task's files points at, what costs most first; of the naive training."""
    disturbed: str = ""
    """Why its shares are not to be gone by; empty where they are."""


class Worth(Record, frozen=True, kw_only=True):
    """How many times faster the whole plan is with a part than without it, in place."""

    technique: str
    ratio: float
    low: float
    high: float
    lost: tuple[str, ...] = ()
    """Techniques that do not apply without it, and are part of its worth."""
    failure: str = ""
    """Why it could not be measured; the figures are then 1."""


class PartWeighed(Record, frozen=True, kw_only=True):
    plan: Plan
    worth: Worth


class PairTrained(Record, frozen=True, kw_only=True):
    """On the way to a proof that a plan trains as well."""

    plan: Plan
    steps: int
    pair: SeedPair


class PlanJudged(Record, frozen=True, kw_only=True):
    plan: Plan
    claim: NumericsClaim


class Spent(Record, frozen=True, kw_only=True):
    """Seconds by the clock."""

    measuring_s: float = 0.0
    """Building, profiling and the control, before the search."""
    search_s: float = 0.0
    ablation_s: float = 0.0
    confirmation_s: float = 0.0
    proof_s: float = 0.0
    curves_s: float = 0.0
    """Trainings whose losses are drawn, where the proof has none."""
    larger_batch_s: float = 0.0

    def total_s(self) -> float:
        return math.fsum(getattr(self, name) for name in self.__struct_fields__)
