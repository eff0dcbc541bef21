"""Two trainings over the same seeds, and whether they come to the same."""

from typing import Literal

from hasten.records.curves import Curves, SeedCurve
from hasten.records.record import Record


class SeedPair(Record, frozen=True, kw_only=True):
    """Both from the same weights, with the same order of data."""

    seed: int
    naive: SeedCurve
    plan: SeedCurve


class ParityFigure(Record, frozen=True, kw_only=True):
    """Plan minus naive, over all seeds."""

    name: str
    naive: float
    """Mean of the naive training."""
    difference: float
    low: float
    high: float
    margin: float
    """The whole interval must lie within it."""
    spread: float
    """Standard deviation of the naive training over seeds."""
    likeness: Literal["equivalent", "different", "undecided"]

    def share(self) -> float:
        """Of the margin that the interval takes up; above 1 it is not shown."""
        reach = max(abs(self.low), abs(self.high))
        return reach / self.margin if self.margin else float(reach > 0)


class Parity(Record, frozen=True, kw_only=True):
    steps: int
    """Of each training."""
    error: float
    """At most so often are unlike trainings called equivalent."""
    figures: tuple[ParityFigure, ...]
    pairs: tuple[SeedPair, ...]

    def curves(self) -> Curves:
        return Curves(
            steps=self.steps,
            seeds=tuple(each.seed for each in self.pairs),
            naive=tuple(each.naive for each in self.pairs),
            plan=tuple(each.plan for each in self.pairs),
        )
