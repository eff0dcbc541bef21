"""What a training is asked for, checked before any work."""

from dataclasses import dataclass
from pathlib import Path

from hasten.config import PerformanceConfig
from hasten.errors import HastenError
from hasten.records.plan import NAIVE, Plan
from hasten.records.training import RecipeClaim
from hasten.task.task import Task
from hasten.train.every import Every

EACH_EPOCH = Every(1, "epoch")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to train, how, how long, and what to keep of it."""

    task: Task | str
    plan: Plan | PerformanceConfig = NAIVE
    epochs: int | None = None
    steps: int | None = None
    """Totals, of a training that is resumed too. Without either it is one epoch."""
    seed: int | None = None
    """None is 0, or the one of the checkpoint."""
    checkpoint_dir: Path | None = None
    checkpoint_every: int | None = None
    """Steps; None is every ten minutes. There is one at the end in any case."""
    resume: bool = False
    evaluate_every: Every = EACH_EPOCH
    log_every: int = 50
    """Steps between events."""
    deterministic: bool = False
    claim: RecipeClaim | None = None
    """What the recipe promised that the plan is from."""

    def __post_init__(self) -> None:
        if self.epochs is not None and self.steps is not None:
            raise HastenError("Both epochs and steps are given.", fix="Give one of the two.")
        for name in ("epochs", "steps", "checkpoint_every", "log_every"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise HastenError(f"{name}={value!r} is not possible.", fix="Use 1 or more.")
        if self.seed is not None and (type(self.seed) is not int or not 0 <= self.seed < 2**63):
            raise HastenError(f"seed={self.seed!r} is not possible.", fix="Use 0 to 2**63 - 1.")
        if self.checkpoint_dir is None and (self.resume or self.checkpoint_every is not None):
            given = "resume" if self.resume else "checkpoint_every"
            raise HastenError(
                f"{given} is given without a folder for checkpoints.", fix="Give checkpoint_dir."
            )
