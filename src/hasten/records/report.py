"""What the commands beside ``tune`` come to, as one document each."""

from hasten.records.environment import Environment
from hasten.records.plan import Plan
from hasten.records.recipe import Confirmation
from hasten.records.record import Record
from hasten.records.verdict import (
    Control,
    Decision,
    MemoryClaim,
    NumericsClaim,
    SpeedClaim,
    Verdict,
)


class BenchReport(Record, frozen=True, kw_only=True):
    """Is B faster than A?"""

    task: str
    a: str
    b: str
    plan_a: Plan
    plan_b: Plan
    verdict: Verdict
    """On "B is faster than A"."""
    outcome: Decision
    """"same": no further apart than 3 %; "undecided": the interval allows too much."""
    regression: bool
    """Whether B is proven slower than A."""
    environment: Environment
    control: Control
    confirmation: Confirmation
    speed: SpeedClaim | None
    batch_size: int | None
    """Rows of a step, where the data tells."""


class ProofReport(Record, frozen=True, kw_only=True):
    """Does a recipe hold, here and now?"""

    task: str
    recipe: str
    verdict: Verdict
    """On what the recipe was made for, and that the training is the same."""
    why: str
    environment: Environment
    differences: tuple[str, ...]
    """In what this machine is unlike the one that the recipe was made on."""
    control: Control
    confirmation: Confirmation
    speed: SpeedClaim | None
    numerics: NumericsClaim
    memory: MemoryClaim | None = None
    """Where the recipe was made with a limit for it, or to lower it."""
