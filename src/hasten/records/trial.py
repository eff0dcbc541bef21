"""Candidates and what became of them."""

from typing import Literal

from hasten.records.applied import Applied
from hasten.records.plan import Plan, RawPart, Rung
from hasten.records.record import Record
from hasten.records.verdict import Comparison, NumericsClaim

Outcome = Literal[
    "kept",
    "not_faster",
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


class Offer(Record, frozen=True, kw_only=True):
    """What a technique has to say to this task on this machine."""

    technique: str
    rung: Rung
    answers: tuple[str, ...]
    parts: tuple[RawPart, ...]
    changes_data: bool
    slow_to_prepare: bool
    refusal: str | None
    """Why it cannot apply here; None where it can."""


class Candidate(Record, frozen=True, kw_only=True):
    technique: str
    part: RawPart
    rung: Rung
    finding: str
    bound: float
    changes_data: bool

    def plan_on(self, incumbent: Plan) -> Plan:
        return incumbent.with_part(self.technique, self.part)


class Trial(Record, frozen=True, kw_only=True):
    candidate: Candidate
    outcome: Outcome
    why: str
    detail: str = ""
    """The traceback of a trial that failed."""
    comparison: Comparison | None = None
    numerics: NumericsClaim | None = None
    applied: tuple[Applied, ...] = ()
