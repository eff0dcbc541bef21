"""Claims and how they were shown: comparisons of speed, checks of numerics."""

from typing import Literal

from hasten.records.load import Load
from hasten.records.parity import Parity
from hasten.records.plan import Rung
from hasten.records.record import Record

Verdict = Literal["proven", "not_proven", "refuted"]
Decision = Literal["faster", "slower", "same", "undecided"]


class Round(Record, frozen=True, kw_only=True):
    """One block of each arm, run back to back; the order was drawn at random."""

    first: Literal["a", "b"]
    a_s: float
    """Seconds per row of data in arm A's block."""
    b_s: float


class Comparison(Record, frozen=True, kw_only=True):
    """Arm B against arm A: how many times faster B is, with a confidence interval."""

    ratio: float
    low: float
    high: float
    confidence: float
    margin: float
    """How far from 1 the whole interval must lie before a difference is claimed."""
    decision: Decision
    rounds: tuple[Round, ...]
    elapsed_s: float
    a_warmup_s: float
    b_warmup_s: float
    load: Load | None = None
    """What else the machine was doing. Comparisons made before this field do not say."""

    def apart(self) -> float:
        """How many times faster either side is than the other, whichever that is."""
        return max(self.ratio, 1 / self.ratio)


class Control(Record, frozen=True, kw_only=True):
    """Identical arms against each other: what difference is none?"""

    runs: tuple[Comparison, ...]
    """One; where that was large three, less those whose processes ended."""

    def middle(self) -> Comparison:
        """The run that counts: no single one that was disturbed."""
        return sorted(self.runs, key=Comparison.apart)[len(self.runs) // 2]


class Check(Record, frozen=True, kw_only=True):
    """One thing that was compared, with its figures in words."""

    name: Literal["start", "data", "bitwise", "rounding", "randomness", "parity", "resume"]
    verdict: Verdict
    why: str
    short_of_time: bool = False
    """Not proven for want of time alone: with more of it, it may be decided."""


class NumericsClaim(Record, frozen=True, kw_only=True):
    rung: Rung
    verdict: Verdict
    checks: tuple[Check, ...]
    parity: Parity | None = None
    """What the parity check was made of, where there was one."""

    def with_check(self, check: Check, parity: Parity | None = None) -> "NumericsClaim":
        """The same, held to one more."""
        return NumericsClaim(
            rung=self.rung,
            verdict=self.verdict if check.verdict == "proven" else check.verdict,
            checks=(*self.checks, check),
            parity=parity or self.parity,
        )

    def short_of_time(self) -> bool:
        return any(each.short_of_time for each in self.checks)

    def why(self) -> str:
        """The first check that did not hold, else the last one."""
        if not self.checks:
            return "nothing was checked"
        failed = [check for check in self.checks if check.verdict != "proven"]
        return failed[0].why if failed else self.checks[-1].why


class MemoryClaim(Record, frozen=True, kw_only=True):
    """The tensors of a step at their peak, in fresh processes."""

    verdict: Verdict
    """That B takes no more than is allowed; and less than A, where that was the goal."""
    a_bytes: int
    b_bytes: int
    allowed_bytes: int | None = None
    """None for no limit."""

    def made_room(self) -> bool:
        """What was over the limit is within it: that is worth its time by itself."""
        fits = self.verdict == "proven" and self.allowed_bytes is not None
        return fits and self.a_bytes > (self.allowed_bytes or 0)


class SpeedClaim(Record, frozen=True, kw_only=True):
    """That B is faster than A: in fresh processes, and clear of what identical arms showed."""

    verdict: Verdict
    ratio: float
    low: float
    high: float
    noise_floor: float
    """What two identical arms differed by in the same session, as a ratio, and 1.01 at least."""
    disturbed_by: str | None = None
    """What else the machine was doing, in words; None for nothing notable."""
    a_rows_per_s: float
    b_rows_per_s: float
    warmup_extra_s: float
    break_even_rows: float | None
    """Rows of training after which the extra warm-up is paid back; None where it never is."""
