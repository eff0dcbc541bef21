"""Candidates and what became of them."""

from typing import Literal

import msgspec

from hasten.records.applied import Applied
from hasten.records.finding import MEMORY_PEAK
from hasten.records.plan import NAIVE, Plan, RawPart, Rung
from hasten.records.record import Record
from hasten.records.target import TimeToTarget
from hasten.records.verdict import Comparison, NumericsClaim

Outcome = Literal[
    "kept",
    "not_faster",
    "not_smaller",
    "too_large",
    "missed_target",
    "no_verdict",
    "refuted",
    "not_proven",
    "fell_back",
    "failed",
    "out_of_memory",
    "not_tried",
    "below_noise",
    "out_of_time",
]


UNTRIED: tuple[Outcome, ...] = ("not_tried", "below_noise", "out_of_time")
"""Nothing was run, or nothing that could be timed."""


class Conflict(Record, frozen=True, kw_only=True):
    """A combination that is known to be wrong, whatever the task."""

    beside: str
    """The other technique."""
    why: str
    settings: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Of one's own part, by name: with any of these values only. None named: with all."""

    def holds(self, part: RawPart, plan: Plan) -> bool:
        return self.beside in plan.parts and all(
            part.get(name) in values for name, values in self.settings.items()
        )


class Offer(Record, frozen=True, kw_only=True):
    """What a technique has to say to this task on this machine."""

    technique: str
    rung: Rung
    answers: tuple[str, ...]
    parts: tuple[RawPart, ...]
    changes_data: bool
    slow_to_prepare: bool
    steadies: bool = False
    """Whether processes differ by luck in what it removes."""
    refusal: str | None
    """Why it cannot apply here; None where it can."""
    untried: str = ""
    """Why there are no ``parts``, where it could apply."""
    instead_of: tuple[str, ...] = ()
    """Techniques that have nothing left to do beside this one."""
    brings: tuple[str, ...] = ()
    """Techniques that are taken along where they are offered: it may not work or pay without
    them."""
    conflicts: tuple[Conflict, ...] = ()


class Candidate(Record, frozen=True, kw_only=True):
    technique: str
    part: RawPart
    rung: Rung
    finding: str
    bound: float
    along: dict[str, RawPart] = msgspec.field(default_factory=dict)
    """Parts of other techniques that it brings, unless the plan has them."""
    replaces: tuple[str, ...] = ()
    """Parts of the plan that have nothing left to do beside it."""

    def plan_on(self, incumbent: Plan) -> Plan:
        """What came last stands last."""
        kept = incumbent.without(*self.replaces).parts
        brought = {name: part for name, part in self.along.items() if name not in kept}
        return Plan(parts={**kept, **brought, self.technique: self.part})

    def words(self, *, settings: bool = False) -> str:
        """The change by name, with what it brings."""
        name = self.key() if settings and self.part else self.technique
        return f"{name} with {', '.join(self.along)}" if self.along else name

    def is_for_memory(self) -> bool:
        """It is to make the peak lower, and not the training faster."""
        return self.finding == MEMORY_PEAK

    def key(self) -> str:
        """The same for the same change, whatever it is an answer to and brings along."""
        settings = ", ".join(f"{name}={value!r}" for name, value in sorted(self.part.items()))
        return f"{self.technique}({settings})"


class Trial(Record, frozen=True, kw_only=True):
    candidate: Candidate
    on: Plan = NAIVE
    """The best plan at that time, which it was tried on top of."""
    outcome: Outcome
    why: str
    detail: str = ""
    """The traceback of a trial that failed."""
    comparison: Comparison | None = None
    numerics: NumericsClaim | None = None
    applied: tuple[Applied, ...] = ()
    peak_bytes: int | None = None
    """Of a step's tensors under the plan, where memory is minded."""
    target: TimeToTarget | None = None
    """Of a candidate that changes the training, where it was judged."""

    def key(self) -> str:
        """Of a change to a plan: the same in another search."""
        return trial_key(self.on, self.candidate)

    def tells(self) -> bool:
        """Something of the change, which another search need not ask again: it was run, and so was
        what it was held against."""
        is_void = self.outcome == "no_verdict" and self.comparison is None
        return self.outcome not in UNTRIED and not is_void


def trial_key(on: Plan, candidate: Candidate) -> str:
    aim = " for memory" if candidate.is_for_memory() else ""
    return f"{on.parts} + {candidate.key()} + {candidate.along}{aim}"
