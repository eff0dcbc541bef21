"""A training whose optimizer sleeps, and a technique that wakes it.

It sleeps by a pretended clock: so a tuning's words about it do not hang on timing.
"""

import time
from collections.abc import Callable
from typing import Any

import brisk  # noqa: F401  # nothing here hangs on timing
import pretended_time
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import hasten

ASLEEP_S, AWAKE_S = 0.016, 0.002
"""Awake it still takes most of a step, so that nothing else is worth a trial."""


class Sleepy(torch.optim.SGD):
    pause_s = ASLEEP_S

    def step(self, *args: Any, **more: Any) -> Any:
        pretended_time.sleep(self.pause_s)
        return super().step(*args, **more)


def whole_batches(rows: int, width: int, size: int) -> DataLoader[Any]:
    """Fetched at once: there is nothing to gain by that."""
    data = TensorDataset(torch.randn(rows, width), torch.randint(0, 4, (rows,)))
    batches = BatchSampler(RandomSampler(data), size, drop_last=False)
    return DataLoader(data, sampler=batches, batch_size=None)


def task(forward: Callable[..., Tensor] | None = None) -> hasten.Task:
    pretended_time.pretend()
    return hasten.Task(
        model=nn.Linear(8, 4),
        data=whole_batches(rows=64, width=8, size=8),
        loss=nn.functional.cross_entropy if forward is None else None,
        forward=forward,
        optimizer=lambda parameters: Sleepy(parameters, lr=1e-3),
    )


def sleeps() -> hasten.Task:
    return task()


class Busy(torch.optim.SGD):
    """Computes for as long, whatever it is told, and longer by the clock where cores are shared."""

    def step(self, *args: Any, **more: Any) -> Any:
        end = time.thread_time() + ASLEEP_S
        while time.thread_time() < end:
            pass
        return super().step(*args, **more)


def works_on() -> hasten.Task:
    """What wakes others changes nothing here: two arms are the same."""
    return hasten.Task(
        model=nn.Linear(8, 4),
        data=whole_batches(rows=64, width=8, size=8),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: Busy(parameters, lr=1e-3),
    )


class WakePart(hasten.Part, frozen=True):
    pass


def nothing(pipeline: hasten.Pipeline, step: int) -> None:
    pass


def register(
    name: str,
    beside: Callable[[hasten.Pipeline, int], None] = nothing,
    rung: hasten.Rung = hasten.Rung.BITWISE,
) -> None:
    """A technique that wakes the optimizer. ``beside`` is called as it is applied, with 0, and
    before each step with its number."""
    held_to = rung

    class Waking(hasten.Technique[WakePart]):
        part = WakePart
        stage = hasten.Stage.OPTIMIZER
        rung = held_to
        answers = ("slow-optimizer",)
        about = "Planted by a test."

        def to_try(self, environment: Any, traits: Any) -> list[WakePart]:
            return [WakePart()]

        def apply(self, pipeline: hasten.Pipeline, part: WakePart) -> hasten.Effect:
            (optimizer,) = pipeline.optimizers
            forward, steps = pipeline.forward, iter(range(1, 10**9))

            def waking(*given: Any) -> Any:
                beside(pipeline, next(steps))
                return forward(*given)

            def undo() -> None:
                pipeline.forward = forward
                optimizer.pause_s = ASLEEP_S  # type: ignore[attr-defined]

            beside(pipeline, 0)
            pipeline.forward, optimizer.pause_s = waking, AWAKE_S  # type: ignore[attr-defined]
            return hasten.Effect(why="planted", undo=undo)

    Waking.name = name
    hasten.register_technique(Waking)


register("wakes")
