"""The step engine: what a training loop calls. No host sync of its own in the hot path."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from hasten.errors import HastenError
from hasten.records.applied import Applied
from hasten.records.plan import NAIVE, Plan
from hasten.runtime import fallback
from hasten.runtime.apply import LiveEffect, apply_plan, describe, loading, undo_all
from hasten.runtime.loading import GuardedLoader
from hasten.runtime.rewind import Rewind
from hasten.step.eager import EagerStep
from hasten.step.readings import Readings
from hasten.task.pipeline import Pipeline


class Run:
    """A training run with a plan applied. With the empty plan it is the plain loop, to the bit.

    ``step`` does a whole optimizer step. A loop that keeps its own uses the parts: ``zero_grad``,
    ``transfer``, ``forward``, ``backward`` and ``update``.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan = NAIVE) -> None:
        self.pipeline = pipeline
        self.eager = EagerStep(pipeline)
        pipeline.step = self.eager
        self.plan = plan
        self.dropped: list[Applied] = []
        """What was skipped, or fell back."""
        self.effects: list[LiveEffect]
        self.effects, self.dropped = apply_plan(pipeline, plan)
        self.rewind: Rewind | None = None
        self.trusted = False
        """Whether all that is applied has shown that it runs."""
        self.hiccups: list[str] = []
        """Failures that did not come again when the step was redone."""
        self.epochs_begun = 0
        """By a loader of ours; of this training, if it goes on from a checkpoint."""

    @property
    def applied(self) -> list[Applied]:
        """What each technique of the plan has come to, as of now."""
        return describe(self.effects, self.dropped, self.hiccups)

    @property
    def is_warming(self) -> bool:
        """Whether coming steps still prepare something; they say nothing of the run's speed."""
        return any(live.effect.is_warming() for live in self.effects)

    @property
    def model(self) -> nn.Module:
        """The user's own model, changed in place."""
        return self.pipeline.model

    @property
    def dataloader(self) -> Iterable[Any]:
        """The user's own loader, or what a technique has made of it, which it looks like."""
        if self.pipeline.loader == ():
            raise HastenError(
                "This run has no loader: it was made for a step alone.",
                fix="Loop over your own, or use PerformanceOptimizer.optimize_training_pipeline.",
            )
        return GuardedLoader(self) if loading(self.effects) else self.pipeline.loader

    @property
    def optimizer(self) -> Optimizer:
        """The first one, where the task has several."""
        return self.pipeline.optimizers[0]

    @property
    def readings(self) -> Readings | None:
        """Figures of past steps, where the plan has ``late_readings``."""
        readings: Readings | None = self.pipeline.readings
        return readings

    def step(self, batch: Any) -> Tensor:
        """One optimizer step. The loss stays on the device; ``float(loss)`` waits for it."""
        replay = self.pipeline.replay
        if replay is not None:
            loss = replay(batch)
            if loss is not None:
                return loss
        if not self.effects:
            return self.pipeline.step(batch)
        if self.trusted:
            return fallback.later_step(self, batch)
        return fallback.first_step(self, batch)

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        self.eager.zero_grad()

    def transfer(self, batch: Any) -> Any:
        """The batch on the device, in the layout of the plan."""
        return self.eager.transfer(batch)

    def forward(self, batch: Any) -> Tensor:
        """The loss of a batch that is on the device, in the precision of the plan."""
        return self.eager.forward(batch)

    def backward(self, loss: Tensor) -> None:
        """Scaled where the precision asks for it."""
        self.eager.backward(loss)

    def update(self) -> None:
        """Unscale, clip, step the optimizers, step the schedulers that count steps."""
        self.eager.update_weights()
        self.eager.step_schedulers()

    def epoch(self) -> Iterator[Any]:
        """The batches of one epoch; carried state starts anew, epoch schedulers step at its end."""
        self.start_epoch()
        yield from self.dataloader
        self.end_epoch()

    def endless(self) -> Iterator[Any]:
        """Epoch after epoch."""
        while True:
            empty = True
            for batch in self.epoch():
                empty = False
                yield batch
            if empty:
                raise HastenError(
                    "The training data gives no batch when it is gone through again.",
                    fix="Let iter(data) begin anew each time.",
                )

    def start_epoch(self) -> None:
        """Carried state starts anew; ``epoch`` calls it."""
        self.eager.start_epoch()

    def end_epoch(self) -> None:
        """Steps the schedulers that count epochs; ``epoch`` calls it."""
        if self.pipeline.scheduler_unit == "epoch":
            for scheduler in self.pipeline.schedulers:
                scheduler.step()

    def undo(self) -> None:
        """Take every technique back; the training goes on as the plain loop."""
        undo_all(self.effects)
        self.eager.before = None
        self.plan = NAIVE
