"""What ``hasten bench --inference`` comes to."""

from hasten.records.environment import Environment
from hasten.records.plan import Plan
from hasten.records.recipe import Confirmation
from hasten.records.record import Record
from hasten.records.verdict import Control, Decision, SpeedClaim, Verdict


class Latency(Record, frozen=True, kw_only=True):
    """Of calls that were waited for one by one."""

    median_s: float
    p95_s: float
    p99_s: float
    calls: int


class InferenceSize(Record, frozen=True, kw_only=True):
    """Calls of one number of rows."""

    rows: int
    a: Latency
    b: Latency
    outcome: Decision
    control: Control
    confirmation: Confirmation
    speed: SpeedClaim | None
    """Of calls in a row."""


class InferenceReport(Record, frozen=True, kw_only=True):
    """Does B's model answer faster than A's?"""

    task: str
    a: str
    b: str
    plan_a: Plan
    """Without what acts on a training only."""
    plan_b: Plan
    verdict: Verdict
    """On "B is faster than A, at every size"."""
    regression: bool
    """Whether B is proven slower at some size."""
    with_loss: bool
    """Whether the loss is in the calls, as it is where the task has a forward of its own."""
    environment: Environment
    sizes: tuple[InferenceSize, ...]
