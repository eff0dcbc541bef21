"""What a long job is doing just now."""

from typing import Literal

from hasten.records.record import Record

Phase = Literal["measuring", "searching", "proving", "settling", "confirming", "enlarging"]


class Doing(Record, frozen=True, kw_only=True):
    what: str
    phase: Phase | None = None
    """None for a job that has no phases."""
    best: str = ""
    """What was found so far; empty before there was anything to find."""
    left_s: float | None = None
    """What all that is left takes, about; None where that is not known."""
