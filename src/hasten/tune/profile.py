"""Where the time and the memory of a step go, and what is made of that."""

import time
from collections.abc import Callable
from pathlib import Path

from hasten.diagnose.diagnose import diagnose
from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.measure.messages import Described
from hasten.records.measurement import Measurement
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Diagnosis, Limit, ProfileParts, ProfileReport
from hasten.records.recipe import read_recipe


def profile(
    task: str,
    *,
    recipe: Path | None,
    trace: Path | None,
    seed: int,
    tell: Callable[[str], None],
) -> ProfileReport:
    """Of the naive training, or of that by a recipe. ``trace`` is a file to write some steps to."""
    began = time.monotonic()
    plan = NAIVE if recipe is None else read_recipe(recipe).as_plan()
    if trace is not None and not trace.absolute().parent.is_dir():
        raise HastenError(
            f"There is no folder {str(trace.parent)!r} for the trace.", fix="Make it first."
        )
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe(plan)
        parts = lab.profile(plan, tell, trace=trace)
    found = diagnosis_of(parts, described, task, plan)
    return ProfileReport(
        task=task,
        plan=plan,
        limit=found.limit,
        why=found.why,
        next=found.next,
        environment=described.environment,
        traits=described.traits,
        measurement=parts.measurement,
        syncs=parts.syncs,
        launches=parts.launches,
        ceilings=parts.ceilings,
        work=parts.work,
        memory=parts.memory,
        bounds=found.bounds,
        findings=found.findings,
        notes=parts.notes,
        trace=parts.trace,
        elapsed_s=time.monotonic() - began,
    )


def diagnosis_of(parts: ProfileParts, described: Described, task: str, plan: Plan) -> Diagnosis:
    """By the phases alone."""
    findings = diagnose(
        parts.measurement,
        described.traits.model,
        task_place=described.task_place,
        model_place=described.model_place,
    )
    tune = [f"hasten tune {task} tries what answers this, and proves what helps."]
    limit, why = _limit(parts.measurement)
    return Diagnosis(
        limit=limit,
        why=why,
        next=(*(tune if plan == NAIVE and findings else ()), *(each.advice for each in findings)),
        bounds=parts.bounds,
        findings=tuple(findings),
    )


def _limit(measurement: Measurement) -> tuple[Limit, str]:
    step = measurement.typical_step()
    total = step.total_s() or 1.0
    if step.data_wait_s > total / 2:
        share = 100 * step.data_wait_s / total
        return "input-bound", f"{share:.0f} % of a step is spent waiting for the next batch"
    if step.optimizer_s > total / 2:
        share = 100 * step.optimizer_s / total
        return "optimizer-bound", f"{share:.0f} % of a step is spent updating the weights"
    return "balanced", "neither the loader nor the update takes half of a step"
