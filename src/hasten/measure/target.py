"""A training that is looked at after equal numbers of rows, until it has reached a target."""

import math
import time

import torch
from torch import Tensor

from hasten.measure.messages import Ended, TargetTrained, TrainToTarget
from hasten.records.curves import TRAINING_LOSS, figure_name
from hasten.runtime.evaluate import evaluate
from hasten.runtime.run import Run
from hasten.stats.target import reached
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task


def train_to_target(task: Task, request: TrainToTarget) -> TargetTrained:
    training = _Training(task, request)
    return TargetTrained(
        ended=training.run(),
        course=tuple(training.course),
        rows=tuple(training.rows),
        higher=tuple(name for name, each in task.metrics.items() if each.higher_is_better),
        applied=tuple(training.steps.applied),
    )


class _Training:
    def __init__(self, task: Task, request: TrainToTarget) -> None:
        self._task, self._request = task, request
        self._deadline = time.monotonic() + request.limit_s
        self.steps = Run(Pipeline.from_task(task), request.plan)
        self.course: list[dict[str, float]] = []
        self.rows: list[int] = []
        self._losses: list[Tensor] = []
        self._counts: list[int] = []

    def run(self) -> Ended:
        done = 0
        for batch in self.steps.endless():
            self._counts.append(self.steps.pipeline.count(batch))
            done += batches.rows_in(batch)
            self._losses.append(self.steps.step(batch))
            if done >= self._request.every_rows * (len(self.course) + 1):
                self.rows.append(done)
                ended = self._look()
                if ended:
                    return ended
        raise AssertionError("an endless training has ended")

    def _look(self) -> Ended | None:
        found = {TRAINING_LOSS: self._loss()}
        if self._task.evaluation_data is not None:
            figures = evaluate(self._task)
            found |= {figure_name(name): value for name, value in figures.items()}
        if not all(map(math.isfinite, found.values())):
            return "not_finite"
        self.course.append(found)
        target, metrics = self._request.target, self._task.metrics
        higher = [name for name, each in metrics.items() if each.higher_is_better]
        if target is not None and reached(self.course, target, higher) is not None:
            return "reached"
        if len(self.course) == self._request.checkpoints:
            return "in_the_end"
        return "out_of_time" if time.monotonic() > self._deadline else None

    def _loss(self) -> float:
        """The mean since the last checkpoint, by what the task counts."""
        losses = torch.stack(self._losses).double().cpu()
        counts = torch.tensor(self._counts, dtype=torch.float64)
        # A batch of padding alone counts nothing, and its mean would be 0 / 0.
        weighted = (losses * counts)[counts > 0].sum() / counts.sum()
        self._losses.clear()
        self._counts.clear()
        return float(weighted)
