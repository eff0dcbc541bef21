"""Short trainings from seeds of their own, and the curves that they become."""

import math
import statistics
from collections.abc import Sequence

from hasten.measure import messages
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.curves import TRAINING_LOSS, SeedCurve, figure_name, steps_a_point
from hasten.records.plan import Plan

LEAST_STEPS = 100
MOST_STEPS = 400
"""One epoch, but no fewer and no more than these, unless time ends it."""
LAST = 4
"""The training loss is that of the last quarter: one step's alone is mostly its batch's."""


def seed_to_train(
    task: str,
    plan: Plan,
    seed: int,
    *,
    steps: int | None,
    steps_s: float,
    evaluates: bool = True,
) -> messages.TrainSeed:
    """``steps`` where they are known, else what ``steps_s`` allow."""
    return messages.TrainSeed(
        task=task,
        plan=plan,
        seed=seed,
        least=steps or LEAST_STEPS,
        most=steps or MOST_STEPS,
        limit_s=math.inf if steps else steps_s,
        evaluates=evaluates,
    )


def train_together(
    seeds: Sequence[tuple[Worker, messages.TrainSeed]], limit_s: float
) -> list[messages.SeedTrained]:
    """At the same time, each in its process and within ``limit_s``, with building the task and the
    evaluation; raises WorkerFailure once none of them is at work any more."""
    for worker, request in seeds:
        worker.send(request)
    trained: list[messages.SeedTrained] = []
    failures: list[WorkerFailure] = []
    for worker, _ in seeds:
        try:
            trained.append(worker.receive(messages.SeedTrained, limit_s))
        except WorkerFailure as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return trained


def curve_of(trained: messages.SeedTrained) -> SeedCurve:
    losses = finite_losses(trained)
    figures = {} if len(losses) < len(trained.losses) else {TRAINING_LOSS: _last(losses)}
    for name, value in trained.figures.items():
        if value is not None:
            figures[figure_name(name)] = value
    return SeedCurve(losses=tuple(_points(losses, len(trained.losses))), figures=figures)


def finite_losses(trained: messages.SeedTrained) -> list[float]:
    """Up to the first that is not."""
    found = []
    for loss in trained.losses:
        if loss is None:
            break
        found.append(loss)
    return found


def _last(losses: list[float]) -> float:
    return statistics.fmean(losses[-max(len(losses) // LAST, 1) :])


def _points(losses: list[float], steps: int) -> list[float]:
    """Runs are as long as those of a training that did not diverge, so that places are alike."""
    run = steps_a_point(steps)
    return [statistics.fmean(losses[i : i + run]) for i in range(0, len(losses), run)]
