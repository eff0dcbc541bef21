"""A short training from a seed of its own: its losses, and what its weights are worth after it."""

import math
import sys
import time

import torch
from torch import Tensor

from hasten.measure.digests import digest_state
from hasten.measure.messages import SeedTrained, TrainSeed
from hasten.runtime.evaluate import evaluate
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task


def train_seed(task: Task, request: TrainSeed) -> SeedTrained:
    """Evaluated without the plan: what counts is what the weights have become."""
    began = time.monotonic()
    run = Run(Pipeline.from_task(task), request.plan)
    start = digest_state(run.pipeline)
    losses = _steps(run, request)
    applied = tuple(run.applied)
    run.undo()
    evaluates = request.evaluates and task.evaluation_data is not None
    figures = evaluate(task) if evaluates else {}
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()  # the next seed compiles its own model
    return SeedTrained(
        start=start,
        losses=tuple(map(_finite, losses)),
        figures={name: _finite(value) for name, value in figures.items()},
        applied=applied,
        elapsed_s=time.monotonic() - began,
        device=run.pipeline.device.type,
    )


def _steps(run: Run, request: TrainSeed) -> list[float]:
    """The first is outside the time: it may have a device to wake, or a model to compile."""
    found: list[Tensor] = []
    deadline = math.inf
    while len(found) < request.least and time.monotonic() < deadline:
        for batch in run.epoch():
            found.append(run.step(batch))
            if len(found) == 1:
                deadline = time.monotonic() + request.limit_s
            if len(found) == request.most or time.monotonic() > deadline:
                break
    losses: list[float] = torch.stack(found).double().tolist()
    return losses


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
