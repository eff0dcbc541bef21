"""Where the time of a step goes.

Method: the parts of a step are marked as they begin, and each is charged with the time up to the
next mark. So the phases of a step add up to the step, whatever the step does, and steps to the
loop. On CUDA the marks are events in the stream (``marks``): a phase is what it adds to the time of
the device, and a wait for data that the device's own work hides counts as nothing.

Limits: where the host is ahead of the device, what the host does is hidden; where it is behind, a
phase is the time that the host takes to launch it. A step that is replayed as one graph has no
parts. The marks cost tens of microseconds a step on CUDA.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from torch import Tensor

from hasten.host.kernel import kernel_work
from hasten.measure.blocks import warm
from hasten.measure.marks import Marks, marks_for, wait_for
from hasten.measure.ranges import PARTS, Method, wrapped_parts
from hasten.records.measurement import Measurement, Phases
from hasten.runtime.memory import read_memory
from hasten.runtime.run import Run
from hasten.task import batch as batches

WARM = 5
FEWEST = 5
ENOUGH_S = 10.0
"""Of slow steps, fewer will do."""
MARKS = 8
"""Of a usual step."""


def measure_phases(run: Run, source: Iterator[Any], steps: int) -> Measurement:
    """The first step is timed apart, a few more warm up, then ``steps`` are measured, or fewer
    where they are slow. All of them are steps of the training, to the bit."""
    began = time.perf_counter()
    batch = next(source)
    has_batch = time.perf_counter()
    run.step(batch)
    wait_for(run.pipeline.device)
    first_batch_s, first_step_s = has_batch - began, time.perf_counter() - has_batch
    step_s = warm(run, source, WARM)
    count = min(steps, max(FEWEST, int(ENOUGH_S / max(step_s, 1e-9))))
    marks = marks_for(run.pipeline.device, expected=MARKS * count + 1)
    before = kernel_work()
    marked = mark_steps(run, source, count, marks)
    after = kernel_work()
    return Measurement(
        steps=phases_of(marked.names, marks.spans()),
        rows=tuple(marked.rows),
        losses=tuple(float(loss.detach()) for loss in marked.losses),
        first_batch_s=first_batch_s,
        first_step_s=first_step_s,
        kernel_s=(after.seconds - before.seconds) / count,
        page_faults=(after.faults - before.faults) / count,
        memory=read_memory(),
    )


class Marked(NamedTuple):
    """Of some steps: the phases as they began, the rows, and the losses, which nobody has read."""

    names: list[str]
    rows: list[int]
    losses: list[Tensor]


def mark_steps(run: Run, source: Iterator[Any], steps: int, marks: Marks) -> Marked:
    marked = Marked([], [], [])

    def mark(phase: str) -> None:
        marked.names.append(phase)
        marks.mark()

    with marking(run, mark):
        for _ in range(steps):
            mark("data_wait_s")
            batch = next(source)
            mark("host_s")
            marked.losses.append(run.step(batch))
            marked.rows.append(batches.rows_in(batch))
        mark("data_wait_s")
    return marked


def marking(run: Run, mark: Callable[[str], None]) -> AbstractContextManager[None]:
    """``mark`` is called with a phase as it begins. The step's own methods are called as before."""

    def wrap(name: str, method: Method) -> Method:
        phase, is_last = f"{PARTS[name]}_s", name == "update_weights"

        def call(*arguments: Any) -> Any:
            mark(phase)
            found = method(*arguments)
            if is_last:  # the rest is the loop's
                mark("host_s")
            return found

        return call

    return wrapped_parts(run, wrap)


def phases_of(names: Sequence[str], spans: Sequence[float]) -> tuple[Phases, ...]:
    """``spans[i]`` is from the beginning of ``names[i]`` to that of ``names[i + 1]``. Each wait for
    data begins a step, and the last one ends them all."""
    steps: list[dict[str, float]] = []
    for name, seconds in zip(names[:-1], spans, strict=True):
        if name == "data_wait_s":
            steps.append({"host_s": 0.0})
        steps[-1][name] = steps[-1].get(name, 0.0) + seconds
    return tuple(_phases(step) for step in steps)


def _phases(seconds: dict[str, float]) -> Phases:
    if "forward_s" not in seconds:  # no part of it was called: it was replayed as a whole
        seconds["graph_s"] = seconds.pop("host_s")
    return Phases(**{name: seconds.get(name, 0.0) for name in Phases.__struct_fields__})
