"""Where the time of a step goes.

Method: a clock is read between the parts of a step. On an accelerator the device is waited for at
each reading, so that a phase is charged with its own work; that keeps host and device from
overlapping, and the phases of a fast loop add up to more than its steps take. They say what to
try, never what was gained.
"""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch

from hasten.records.measurement import Measurement, Phases
from hasten.runtime.memory import read_memory
from hasten.runtime.run import Run
from hasten.task import batch as batches

WARM = 5
FEWEST = 5
ENOUGH_S = 10.0
"""Of slow steps, fewer will do."""


def measure_phases(run: Run, source: Iterator[Any], steps: int) -> Measurement:
    """The first step is timed apart, a few more warm up, then ``steps`` are measured, or fewer
    where they are slow."""
    clock = _clock_for(run.pipeline.device)
    began = clock()
    run.step(next(source))
    first_step_s = clock() - began
    for _ in range(WARM):
        run.step(next(source))
    measured: list[tuple[Phases, int, float]] = []
    start = time.monotonic()
    while len(measured) < steps and (len(measured) < FEWEST or time.monotonic() - start < ENOUGH_S):
        measured.append(_measure_step(run, source, clock))
    return Measurement(
        steps=tuple(phases for phases, _, _ in measured),
        rows=tuple(rows for _, rows, _ in measured),
        losses=tuple(loss for _, _, loss in measured),
        first_step_s=first_step_s,
        memory=read_memory(),
    )


def _measure_step(
    run: Run, source: Iterator[Any], clock: Callable[[], float]
) -> tuple[Phases, int, float]:
    marks = [clock()]
    batch = next(source)
    marks.append(clock())
    moved = run.transfer(batch)
    marks.append(clock())
    run.zero_grad()
    loss = run.forward(moved)
    marks.append(clock())
    run.backward(loss)
    marks.append(clock())
    run.update()
    marks.append(clock())
    data, transfer, forward, backward, optimizer = (
        after - before for before, after in pairwise(marks)
    )
    phases = Phases(
        data_wait_s=data,
        transfer_s=transfer,
        forward_s=forward,
        backward_s=backward,
        optimizer_s=optimizer,
    )
    return phases, batches.rows_in(batch), float(loss.detach())


def _clock_for(device: torch.device) -> Callable[[], float]:
    if device.type == "cpu":
        return time.perf_counter

    def after_the_device() -> float:
        torch.accelerator.synchronize(device)
        return time.perf_counter()

    return after_the_device
