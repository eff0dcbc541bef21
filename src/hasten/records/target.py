"""How much sooner another training reaches what the first one comes to."""

from typing import Literal

from hasten.records.record import Record
from hasten.records.verdict import Comparison, SpeedClaim, Verdict

Allowed = Literal["batch-size"]
"""What may change in the training where it is allowed by name."""


class SeedToTarget(Record, frozen=True, kw_only=True):
    """Both from the same weights and the same order of rows."""

    seed: int
    target: dict[str, float]
    """What the training without the change comes to: its figures, over its last quarter."""
    a_rows: int
    """Rows after which it is not there yet, at the last checkpoint before it is."""
    b_rows: int
    """Rows after which the changed training is there."""


class TimeToTarget(Record, frozen=True, kw_only=True):
    """That a changed training is sooner where the unchanged one comes to, by the clock."""

    verdict: Verdict
    ratio: float
    low: float
    high: float
    confidence: float
    changes: str = ""
    """What is another in the training, in words."""
    steps: int = 0
    """Of the unchanged training, whose end is the target."""
    higher: tuple[str, ...]
    """Figures of the target that are the better the higher they are."""
    seeds: tuple[SeedToTarget, ...]
    speed: SpeedClaim
    """Rows a second with the change against without it; no claim that the training is the same."""
    pairs: tuple[Comparison, ...] = ()
    """What the speed was claimed from."""

    def means(self) -> dict[str, float]:
        """The target, over the seeds."""
        names = self.seeds[0].target
        return {
            name: sum(each.target[name] for each in self.seeds) / len(self.seeds) for name in names
        }


class ChangedTraining(Record, frozen=True, kw_only=True):
    """In a recipe: what its plan changes in the training, and what was claimed for that."""

    technique: str
    """Whose part of the plan it is; all other claims are of the plan without it."""
    changes: str
    verdict: Verdict
    times_as_soon: float
    """At the target, by the clock."""
    low: float
    high: float
