"""Where the time and the memory of a step go, and what is made of that."""

import time
from collections.abc import Callable
from pathlib import Path

from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Diagnosis, ProfileReport
from hasten.records.recipe import read_recipe
from hasten.tune.code import code_costs
from hasten.tune.examine import diagnosis_of


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
        described = lab.describe({str(recipe): plan})
        parts = lab.profile(plan, tell, trace=trace, anew=True)
        places = described.task_place, described.model_place
        code = code_costs(parts, *places, lines_run=lab.lines_run)
    found = diagnosis_of(parts, described)
    return ProfileReport(
        task=task,
        plan=plan,
        limit=found.limit,
        why=found.why,
        next=_next(task, plan, found),
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
        code=code,
        notes=parts.notes,
        trace=parts.trace,
        elapsed_s=time.monotonic() - began,
    )


def _next(task: str, plan: Plan, found: Diagnosis) -> tuple[str, ...]:
    """Tuning tries the advice that a technique answers; what is left is for the author."""
    if plan != NAIVE or not found.findings:
        return found.next
    return (f"hasten tune {task} tries what answers this, and proves what helps.", *found.next)
