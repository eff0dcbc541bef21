"""What a training tells while it runs, and in the end."""

from typing import Literal

from hasten.records.applied import Applied
from hasten.records.measurement import Memory
from hasten.records.plan import RawPart
from hasten.records.record import Record


class StepEvent(Record, frozen=True, kw_only=True):
    """One of every so many steps. Rates and shares are over the steps since the event before."""

    step: int
    epoch: int
    elapsed_s: float
    """Of this process, by a clock that does not jump."""
    loss: float | None
    """JSON has no NaN: one that was not finite is read back as None. So are the figures below."""
    gradient_norm: float | None
    """Before clipping; None where nothing is clipped."""
    learning_rate: float | None
    scale: float | None
    """Of an fp16 loss."""
    rows_per_s: float
    data_wait: float
    """Share of the time that the host waited for batches."""
    memory: Memory
    """Peaks since the process began."""


class EvaluationEvent(Record, frozen=True, kw_only=True):
    step: int
    epoch: int
    elapsed_s: float
    took_s: float
    metrics: dict[str, float | None]
    """With "loss" over the evaluation data."""


class CheckpointEvent(Record, frozen=True, kw_only=True):
    step: int
    elapsed_s: float
    path: str
    healthy: bool
    stalled_s: float
    """How long training stood still for it."""


class NoteEvent(Record, frozen=True, kw_only=True):
    """Something that a person should know."""

    step: int
    elapsed_s: float
    words: str


class RecipeClaim(Record, frozen=True, kw_only=True):
    """What a recipe promised."""

    path: str
    ratio: float
    """To the naive training."""
    rows_per_s: float | None
    """When it was proven; None in recipes that do not say."""


class TrainingSummary(Record, frozen=True, kw_only=True):
    task: str | None
    plan: dict[str, RawPart]
    outcome: Literal["done", "stopped"]
    why: str
    """Why it ended."""
    signal: int | None
    """That stopped it."""
    step: int
    epoch: int
    resumed_from: int | None
    """The step."""
    rows: int
    """Of this process, as the next two."""
    elapsed_s: float
    rows_per_s: float
    """Of training alone: without preparing, the first step, evaluating and saving."""
    data_wait: float
    loss: float | None
    metrics: dict[str, float | None]
    """Of the last evaluation."""
    memory: Memory
    applied: tuple[Applied, ...]
    claim: RecipeClaim | None
    checkpoint: str | None
    """The last one."""
    healthy: bool | None
    """Whether its weights are all finite. One that is not is never gone on from."""
    log: str | None
    notes: tuple[str, ...]
