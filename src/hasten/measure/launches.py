"""What a step asks of the device: how many kernels, how long they keep it busy, and which.

Method: torch's profiler over a few steps, once it has been started before. On CUDA only the
device's own activity is traced, which disturbs the host least; the device is busy in the union of
all kernels, copies and fills. On the CPU operations of torch take their place: those that call no
other are counted, and the union of all is the time within operations. What a loader does is not
counted there, since it launches nothing on a device either.

Limits: tracing takes time of its own for each launch, so that ``step_s`` is longer than that of
steps that nobody traces; kernels take as long as ever, CPU operations a microsecond longer.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from hasten.errors import HastenError
from hasten.measure.marks import wait_for
from hasten.records.profile import Launches
from hasten.runtime.run import Run

STEPS = 5
SLOWEST = 8
STEP = "hasten.step"
OPERATION = "aten::"


def count_launches(run: Run, source: Iterator[Any], steps: int = STEPS) -> Launches:
    _trace(run, source, 1)  # starting it for the first time takes seconds, in the steps too
    events, elapsed_s = _trace(run, source, steps)
    on_cuda = run.pipeline.device.type == "cuda"
    seen = _kernels(events) if on_cuda else _operations(events)
    if not seen:
        raise HastenError("The profiler has seen nothing of the device's work.")
    return Launches(
        per_step=sum(each.is_launch for each in seen) / steps,
        device_s=union_s(each.span for each in seen) / steps,
        step_s=elapsed_s / steps,
        slowest=_slowest(seen, steps),
    )


Span = tuple[float, float]
"""From when to when, in seconds."""


class Seen(NamedTuple):
    """A kernel, or an operation on the CPU."""

    name: str
    span: Span
    own_s: float
    is_launch: bool
    """Not so for an operation that leaves its work to others."""


def _trace(run: Run, source: Iterator[Any], steps: int) -> tuple[list[Any], float]:
    device = run.pipeline.device
    activity = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiler:
        start = time.perf_counter()
        for _ in range(steps):
            batch = next(source)
            with record_function(STEP):
                run.step(batch)
        wait_for(device)
        elapsed_s = time.perf_counter() - start
    return list(profiler.events() or ()), elapsed_s


def _kernels(events: list[Any]) -> list[Seen]:
    """Copies and fills are launched as kernels are; a named range is not."""
    return [
        Seen(event.name, span := _span(event), span[1] - span[0], is_launch=True)
        for event in events
        if event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]


def _operations(events: list[Any]) -> list[Seen]:
    steps = [_span(event) for event in events if event.name == STEP]
    return [
        Seen(
            event.name,
            span,
            event.self_cpu_time_total / 1e6,
            is_launch=not any(child.name.startswith(OPERATION) for child in event.cpu_children),
        )
        for event in events
        if event.name.startswith(OPERATION)
        and any(start <= (span := _span(event))[0] < end for start, end in steps)
    ]


def _span(event: Any) -> Span:
    return event.time_range.start / 1e6, event.time_range.end / 1e6


def _slowest(seen: list[Seen], steps: int) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for each in seen:
        seconds[each.name] += each.own_s / steps
    return dict(sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST])


def union_s(spans: Iterable[Span]) -> float:
    """Seconds that lie within at least one of them."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
