"""The step engine: what a training loop calls. No host sync of its own in the hot path."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hasten.errors import HastenError
from hasten.records.applied import Applied
from hasten.records.plan import NAIVE, Plan
from hasten.runtime import fallback
from hasten.runtime.apply import LiveEffect, apply_plan, undo_all
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline

_NOT_STARTED = object()
"""Instead of carried state: it is made when it is first needed, as a plain loop makes it."""


class Run:
    """A training run with a plan applied. With the empty plan it is the plain loop, to the bit."""

    def __init__(self, pipeline: Pipeline, plan: Plan = NAIVE) -> None:
        self.pipeline = pipeline
        self.effects: list[LiveEffect]
        self.applied: list[Applied]
        self.effects, self.applied = apply_plan(pipeline, plan)
        self.plan = plan
        self._trusted = False
        self.carried_state: Any = _NOT_STARTED

    @property
    def model(self) -> nn.Module:
        return self.pipeline.model

    @property
    def dataloader(self) -> Iterable[Any]:
        return self.pipeline.loader

    @property
    def optimizer(self) -> Optimizer:
        return self.pipeline.optimizers[0]

    def step(self, batch: Any) -> Tensor:
        """One optimizer step. The loss stays on the device; ``float(loss)`` waits for it."""
        if self._trusted or not self.effects:
            return self.plain_step(batch)
        loss, self._trusted = fallback.first_step(self, batch)
        return loss

    def plain_step(self, batch: Any) -> Tensor:
        self.zero_grad()
        loss = self.forward(self.transfer(batch))
        loss.backward()  # type: ignore[no-untyped-call]
        self.update()
        return loss.detach()

    # The parts of a step, for loops that keep their own and for measuring each.

    def zero_grad(self) -> None:
        for optimizer in self.pipeline.optimizers:
            optimizer.zero_grad()

    def transfer(self, batch: Any) -> Any:
        return batches.move(batch, self.pipeline.device)

    def forward(self, batch: Any) -> Tensor:
        pipeline = self.pipeline
        if pipeline.initial_state is None:
            loss: Tensor = pipeline.forward(pipeline.model, batch)
            return loss
        if self.carried_state is _NOT_STARTED:
            self.start_epoch()
        loss, state = pipeline.forward(pipeline.model, batch, self.carried_state)
        self.carried_state = batches.detach(state)
        return loss

    def update(self) -> None:
        """Clip, step the optimizers, step the schedulers that count steps."""
        pipeline = self.pipeline
        if pipeline.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(pipeline.model.parameters(), pipeline.clip_norm)
        for optimizer in pipeline.optimizers:
            optimizer.step()
        if pipeline.scheduler_unit == "step":
            self._step_schedulers()

    def epoch(self) -> Iterator[Any]:
        """The batches of one epoch; carried state starts anew, epoch schedulers step at its end."""
        self.start_epoch()
        yield from self.pipeline.loader
        if self.pipeline.scheduler_unit == "epoch":
            self._step_schedulers()

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
        initial = self.pipeline.initial_state
        self.carried_state = initial() if initial is not None else None

    def undo(self) -> None:
        """Take every technique back; the training goes on as the plain loop."""
        undo_all(self.effects)
        self.plan = NAIVE

    def _step_schedulers(self) -> None:
        for scheduler in self.pipeline.schedulers:
            scheduler.step()
