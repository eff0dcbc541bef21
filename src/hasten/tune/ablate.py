"""What is each part of a plan worth, in place? The whole plan against itself without the part."""

from collections.abc import Callable

from hasten.measure.compare import compare
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import Plan
from hasten.records.tuning import Worth

EACH_S = 8.0
"""Of timing; enough to tell some per cent, and no claim rests on it."""


def ablate(lab: Lab, plan: Plan, tell: Callable[[str], None]) -> tuple[Worth, ...]:
    """Each part by itself. A part without which another does not apply is worth both."""
    if len(plan.parts) < 2:
        return ()  # what one part alone is worth is what the plan is worth
    found = []
    for number, name in enumerate(plan.parts, 1):
        tell(f"measuring what {name} is worth in place ({number} of {len(plan.parts)})")
        try:
            found.append(_without(lab, plan, name, number))
        except WorkerFailure as failure:
            why = failure.in_a_line()
            found.append(Worth(technique=name, ratio=1.0, low=1.0, high=1.0, failure=why))
        lab.close_workers()
    return tuple(found)


def _without(lab: Lab, plan: Plan, name: str, number: int) -> Worth:
    less, whole = lab.arms(plan.without(name), plan, anew=False)
    comparison = compare(less, whole, seed=number, limit_s=EACH_S)
    return Worth(
        technique=name,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        lost=tuple(each.technique for each in less.applied if each.outcome != "done"),
    )


def idle(worth: tuple[Worth, ...]) -> list[str]:
    """Parts without which the plan is faster beyond doubt: another made them useless."""
    return [each.technique for each in worth if not each.failure and each.high < 1 / 1.01]
