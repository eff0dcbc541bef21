"""Where the time and the memory of a step go: each measurement by itself, and what they say."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hasten.diagnose.diagnose import diagnose
from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.lab import PHASE_STEPS, Lab
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.applied import Applied
from hasten.records.finding import Finding
from hasten.records.measurement import Measurement
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Limit, ProfileReport
from hasten.records.recipe import read_recipe

Tell = Callable[[str], None]
R = TypeVar("R", bound=messages.Reply)
SYNC_STEPS = 5


def profile(
    task: str, *, recipe: Path | None, trace: Path | None, seed: int, tell: Tell
) -> ProfileReport:
    """Of the naive training, or of that by a recipe. What cannot be measured becomes a note."""
    began = time.monotonic()
    plan = NAIVE if recipe is None else read_recipe(recipe).as_plan()
    if trace is not None:
        _refuse_unwritable(trace)
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe(plan)
        with Measuring(lab, plan, tell) as measuring:
            measurement = measuring.phases()
            syncs = measuring.ask(
                "watching where the host waits for the device",
                messages.FindSyncs(steps=SYNC_STEPS),
                messages.SyncsFound,
            )
            peak = measuring.ask(
                "following the memory of a step", messages.MeasurePeak(), messages.PeakMeasured
            )
            traced = trace is not None and measuring.ask(
                f"writing a trace to {trace}",
                messages.ExportTrace(path=str(trace.absolute())),
                messages.TraceExported,
            )
    findings = diagnose(
        measurement,
        described.traits.model,
        task_place=described.task_place,
        model_place=described.model_place,
    )
    limit, why = limit_of(measurement)
    return ProfileReport(
        task=task,
        plan=plan,
        limit=limit,
        why=why,
        next=next_steps(task, plan, findings),
        environment=described.environment,
        traits=described.traits,
        measurement=measurement,
        syncs=syncs.sites if syncs is not None else (),
        launches=None,
        ceilings=None,
        work=None,
        memory=peak.memory if peak is not None else None,
        bounds=(),
        findings=tuple(findings),
        notes=tuple(measuring.notes),
        trace=str(trace) if traced else None,
        elapsed_s=time.monotonic() - began,
    )


def _refuse_unwritable(trace: Path) -> None:
    """Before anything is measured."""
    if not trace.absolute().parent.is_dir():
        raise HastenError(
            f"There is no folder {str(trace.parent)!r} for the trace.", fix="Make it first."
        )


class Measuring:
    """One process with the plan applied, asked for one thing after the other."""

    def __init__(self, lab: Lab, plan: Plan, tell: Tell) -> None:
        self._lab, self._plan, self._tell = lab, plan, tell
        self._worker: Worker
        self.notes: list[str] = []

    def __enter__(self) -> "Measuring":
        self._worker = self._lab.worker()
        return self

    def __exit__(self, *exception: object) -> None:
        self._worker.close()

    def phases(self) -> Measurement:
        """Comes first, since the first step of a process is part of it. A fault if it fails."""
        self._tell("measuring where the time of a step goes")
        try:
            started = self._worker.ask(self._lab.start(self._plan), messages.Started)
            self.notes += [_words(each) for each in started.applied if each.outcome != "done"]
            request = messages.MeasurePhases(steps=PHASE_STEPS)
            return self._worker.ask(request, messages.Measured).measurement
        except WorkerFailure as failure:
            raise failure.as_error() from failure

    def ask(self, doing: str, request: messages.Request, reply: type[R]) -> R | None:
        """None where it failed, which is noted."""
        self._tell(doing)
        try:
            return self._worker.ask(request, reply)
        except WorkerFailure as failure:
            self.notes.append(f"{doing} failed: {failure.failed.what.splitlines()[0]}")
            return None


def _words(applied: Applied) -> str:
    return str(applied)


def limit_of(measurement: Measurement) -> tuple[Limit, str]:
    """By the phases alone."""
    step = measurement.typical_step()
    total = step.total_s()
    shares = {"input-bound": step.data_wait_s, "optimizer-bound": step.optimizer_s}
    limit, seconds = max(shares.items(), key=lambda each: each[1])
    doing = {"input-bound": "waiting for the next batch", "optimizer-bound": "updating the weights"}
    share = seconds / total if total else 0.0
    if share < 0.5:
        return "balanced", "no phase of a step takes half of it but the model itself"
    return limit, f"{100 * share:.0f} % of a step is spent {doing[limit]}"  # type: ignore[return-value]


def next_steps(task: str, plan: Plan, findings: list[Finding]) -> tuple[str, ...]:
    """What answers the findings, the largest first; for a naive training, tuning does it all."""
    advice = [each.advice for each in findings]
    tune = [f"hasten tune {task} tries what answers this, and proves what helps."]
    return (*(tune if plan == NAIVE and findings else ()), *advice)
