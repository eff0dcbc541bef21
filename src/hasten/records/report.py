"""What the commands beside ``tune`` come to, as one document each."""

from hasten.records.environment import Environment
from hasten.records.plan import Plan
from hasten.records.recipe import Confirmation
from hasten.records.record import Record
from hasten.records.verdict import Comparison, NumericsClaim, SpeedClaim, Verdict


class BenchReport(Record, frozen=True, kw_only=True):
    """Is B faster than A?"""

    task: str
    a: str
    b: str
    plan_a: Plan
    plan_b: Plan
    verdict: Verdict
    """On "B is faster than A"."""
    regression: bool
    """Whether B is proven slower than A."""
    environment: Environment
    control: Comparison
    confirmation: Confirmation
    speed: SpeedClaim | None


class ProofReport(Record, frozen=True, kw_only=True):
    """Does a recipe hold, here and now?"""

    task: str
    recipe: str
    verdict: Verdict
    why: str
    environment: Environment
    differences: tuple[str, ...]
    """In what this machine is unlike the one that the recipe was made on."""
    control: Comparison
    confirmation: Confirmation
    speed: SpeedClaim | None
    numerics: NumericsClaim
