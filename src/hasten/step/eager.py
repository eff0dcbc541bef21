"""One optimizer step, operation by operation, as a careful loop does it. No host sync of its own.

The parts are public, for loops that keep their own and for measuring each.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from hasten.step.accumulate import one_forward_moves_nothing, weighted_pieces
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline


class EagerStep:
    """What ``pipeline.step`` is unless a technique puts another in its place."""

    def __init__(self, pipeline: Pipeline, before: Callable[[], None] | None = None) -> None:
        self.pipeline = pipeline
        self.before = before
        """Called before anything is changed, to note what a redo would need."""
        self.loss: Tensor | None = None
        self.gradient_norm: Tensor | None = None
        """Of the last step, before clipping; None where nothing is clipped. On the device."""
        self.updating = False
        """Whether the weights of this step may have been touched already."""

    def __call__(self, batch: Any) -> Tensor:
        self.begin()
        loss = self.compute(self.transfer(batch))
        if self.pipeline.schedulers:
            self.step_schedulers()
        return loss

    def begin(self) -> None:
        if self.before is not None:
            self.before()

    def compute(self, batch: Any) -> Tensor:
        """All that happens on the device, from gradients of nothing to new weights."""
        self.zero_grad()
        if self.pipeline.micro_batches == 1:
            loss = self.forward(batch)
            self.backward(loss)
            total = loss.detach()
        else:
            total = self._accumulate(batch)
        self.update_weights()
        self.loss = total
        return total

    def _accumulate(self, batch: Any) -> Tensor:
        losses = []
        pieces = weighted_pieces(self.pipeline, batch)
        check = one_forward_moves_nothing(self.pipeline, pieces)
        for piece, weight in pieces:
            loss = self.forward(piece) * weight
            check()
            self.backward(loss)
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def zero_grad(self) -> None:
        self.updating = False
        for optimizer in self.pipeline.optimizers:
            optimizer.zero_grad()

    def transfer(self, batch: Any) -> Any:
        return self.pipeline.transfer(batch, self.pipeline.device)

    def forward(self, batch: Any) -> Tensor:
        pipeline = self.pipeline
        if pipeline.initial_state is None:
            loss: Tensor = pipeline.forward(pipeline.model, batch)
            return loss
        if pipeline.state_resets == "batch":
            state = batches.move(pipeline.initial_state(batch), pipeline.device)
            loss, _ = pipeline.forward(pipeline.model, batch, state)
            return loss
        if pipeline.carried_state is None:
            self.start_epoch()
        loss, state = pipeline.forward(pipeline.model, batch, pipeline.carried_state)
        pipeline.carried_state = batches.detach(state)
        return loss

    def start_epoch(self) -> None:
        """Carried state begins anew."""
        pipeline = self.pipeline
        if pipeline.initial_state is not None and pipeline.state_resets == "epoch":
            pipeline.carried_state = batches.move(pipeline.initial_state(), pipeline.device)

    def backward(self, loss: Tensor) -> None:
        scaler = self.pipeline.scaler
        scaled = loss if scaler is None else scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def update_weights(self) -> None:
        """Unscale, clip, step the optimizers, and let the scaler learn from what it saw."""
        pipeline, scaler = self.pipeline, self.pipeline.scaler
        clip = pipeline.clip_norm
        if scaler is not None and clip is not None:
            for optimizer in pipeline.optimizers:
                if _has_gradients(optimizer):
                    scaler.unscale_(optimizer)
        if clip is not None:
            parameters = pipeline.model.parameters()
            self.gradient_norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
        self.updating = True
        if scaler is None:
            for optimizer in pipeline.optimizers:
                optimizer.step()
            return
        # A scaler takes offence at an optimizer without gradients, which has nothing to do.
        busy = [each for each in pipeline.optimizers if _has_gradients(each)]
        for optimizer in busy:
            scaler.step(optimizer)
        if busy:
            scaler.update()

    def step_schedulers(self) -> None:
        """Those that count steps."""
        if self.pipeline.scheduler_unit == "step":
            for scheduler in self.pipeline.schedulers:
                scheduler.step()


def _has_gradients(optimizer: Optimizer) -> bool:
    return any(p.grad is not None for group in optimizer.param_groups for p in group["params"])
