"""A model in evaluation, called as one that serves would be, in a worker process.

One training step comes first: there a technique shows that it runs, or falls back. A call takes a
batch from the host's memory to the model's output; transfer and layout are part of it.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.marks import marks_for, wait_for
from hasten.measure.placement import threads_to_place
from hasten.measure.rest import wait_for_children_to_rest
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task
from hasten.techniques import registry
from hasten.techniques.technique import Stage

STAGES = (Stage.LAYOUT, Stage.COMPILE, Stage.PRECISION, Stage.ATTENTION)
"""Those whose techniques change how a model computes, and not how it is fed or trained."""


def techniques_in_evaluation() -> tuple[str, ...]:
    return tuple(each.name for each in registry.all_techniques() if each.stage in STAGES)


class Evaluation:
    """A run whose steps are calls of its model."""

    def __init__(self, task: Task, plan: Plan, rows: int) -> None:
        if task.initial_state is not None and task.state_resets == "epoch":
            raise HastenError(
                "This model carries a state from batch to batch; single calls say nothing of it.",
                fix="Bench its training instead.",
            )
        self._loss = _Loss(task.loss) if task.loss is not None else None
        if self._loss is not None:
            task = dataclasses.replace(task, loss=self._loss)
        self.run = Run(Pipeline.from_task(task), plan)
        began = time.perf_counter()
        whole = next(iter(self.run.dataloader))
        self.run.step(whole)
        self.run.model.eval()
        self._batch, self._rows = self._cut(whole, rows)
        if self._loss is not None:
            self._loss.is_wanted = False
        self._latencies: list[float] = []
        self._first_s = time.perf_counter() - began

    def warm(self, calls: int) -> messages.Warmed:
        began = time.perf_counter()
        self._call()
        wait_for_children_to_rest()
        times = [self._latency() for _ in range(max(calls, 1))]
        return messages.Warmed(
            elapsed_s=self._first_s + time.perf_counter() - began,
            step_s=statistics.median(times),
            applied=tuple(self.run.applied),
            threads=threads_to_place(self.run.pipeline.device, beside_workers=False),
            device=self.run.pipeline.device.type,
        )

    def time_block(self, calls: int) -> messages.Block:
        """Calls one by one, each until the device has done it; then as many in a row."""
        self._call()
        self._latencies += [self._latency() for _ in range(calls)]
        marks = marks_for(self.run.pipeline.device, expected=2)
        self._call()
        marks.mark()
        for _ in range(calls):
            self._call()
        marks.mark()
        return messages.Block(elapsed_s=marks.spans()[0], rows=calls * self._rows)

    def read(self) -> messages.LatenciesRead:
        return messages.LatenciesRead(
            seconds=tuple(self._latencies), rows=self._rows, with_loss=self._loss is None
        )

    def _latency(self) -> float:
        start = time.perf_counter()
        self._call()
        wait_for(self.run.pipeline.device)
        return time.perf_counter() - start

    @torch.inference_mode()
    def _call(self) -> None:
        self.run.forward(self.run.transfer(self._batch))

    def _cut(self, batch: Any, rows: int) -> tuple[Any, int]:
        """The first rows of a batch, as few as the task allows, and how many there are."""
        whole = batches.rows_in(batch)
        least = max(rows, self.run.pipeline.batch_multiple_of)
        if rows == 0 or whole <= least:
            return batch, whole
        self._compile_for(least, whole)
        return batches.split(batch, [least, whole - least])[0], least

    def _compile_for(self, rows: int, trained: int) -> None:
        """A compiled model leaves other sizes than it was trained on to the eager one; here a call
        of another size is the usual one."""
        for live in self.run.effects:
            remember, recall = live.effect.remember, live.effect.recall
            if live.technique == "compile" and remember is not None and recall is not None:
                recall([rows if each == trained else each for each in remember()])


class _Loss:
    """The task's own loss while a step is trained; the output itself once calls are timed."""

    def __init__(self, loss: Callable[[Any, Any], Tensor]) -> None:
        self._loss = loss
        self.is_wanted = True

    def __call__(self, output: Any, target: Any) -> Any:
        return self._loss(output, target) if self.is_wanted else output
