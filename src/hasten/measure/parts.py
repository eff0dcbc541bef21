"""The parts of a profile behind its phases: a part that fails is a note, and the others go on."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.rates import work_of
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.measurement import Measurement
from hasten.records.profile import Ceilings, ProfileParts, Work

R = TypeVar("R", bound=messages.Reply)
SYNC_STEPS = 5
"""Enough for a line that waits in every second step or so."""


def measure_parts(
    worker: Worker,
    measured: Measurement,
    trace: Path | None,
    tell: Callable[[str], None],
    ceilings: Ceilings | None = None,
) -> ProfileParts:
    """Of a worker whose phases were measured just before. Blocks that are timed come first: the
    profiler, once it was started, makes every later step slower. ``trace`` is a file to write."""
    notes: list[str] = []
    has_ended = False

    def ask(doing: str, request: messages.Request, reply: type[R]) -> R | None:
        nonlocal has_ended
        if has_ended:
            return None
        tell(doing)
        try:
            return worker.ask(request, reply)
        except WorkerFailure as failure:
            notes.append(f"{doing} failed: {failure.failed.what}")
            # One that raised lives, in the midst of a step.
            has_ended = failure.failed.kind in ("raised", "crashed", "hung")
            if has_ended:
                notes.append("what comes after that was not measured")
            return None

    replayed = ask(
        "doing without the loader and the optimizer",
        messages.MeasureBounds(),
        messages.BoundsMeasured,
    )
    waits = ask(
        "watching where the host waits for the device",
        messages.FindSyncs(steps=SYNC_STEPS),
        messages.SyncsFound,
    )
    counted = ask("counting arithmetic", messages.CountWork(), messages.WorkCounted)
    launched = ask("counting launches", messages.CountLaunches(), messages.LaunchesCounted)
    if ceilings is None:
        limits = ask("measuring ceilings", messages.MeasureCeilings(), messages.CeilingsMeasured)
        ceilings = limits.ceilings if limits else None
    peak = ask("following the memory of a step", messages.MeasurePeak(), messages.PeakMeasured)
    traced = trace is not None and ask(
        f"writing a trace to {trace}",
        messages.ExportTrace(path=str(trace.absolute())),
        messages.TraceExported,
    )
    return ProfileParts(
        measurement=measured,
        bounds=replayed.bounds if replayed else (),
        syncs=waits.sites if waits else (),
        launches=launched.launches if launched else None,
        ceilings=ceilings,
        work=_work(counted, ceilings, measured.step_s(), notes),
        memory=peak.memory if peak else None,
        trace=str(trace) if traced else None,
        notes=tuple(notes),
    )


def _work(
    counted: messages.WorkCounted | None,
    ceilings: Ceilings | None,
    step_s: float,
    notes: list[str],
) -> Work | None:
    if counted is None or ceilings is None:
        return None
    try:
        work = work_of(counted, ceilings, step_s)
    except HastenError as error:
        notes.append(error.what)
        return None
    if work is None:
        notes.append("The step multiplies no matrices that could be counted.")
    return work
