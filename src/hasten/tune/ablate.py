"""What is each part of a plan worth, in place? The whole plan against itself without the part."""

from collections.abc import Callable, Mapping

from hasten.measure.compare import Arm, compare
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import Plan
from hasten.records.tuning import Worth
from hasten.records.verdict import Comparison

EACH_S = 8.0
"""Of timing; enough to tell some per cent, and no claim rests on it."""


def ablate(
    lab: Lab,
    plan: Plan,
    tell: Callable[[str], None],
    known: Mapping[str, Worth],
    note: Callable[[Worth], None],
) -> tuple[Worth, ...]:
    """Each part by itself, unless it is ``known``. A part without which another does not apply is
    worth both. Each is noted as it is found."""
    if len(plan.parts) < 2:
        return ()  # what one part alone is worth is what the plan is worth
    found = []
    whole: Arm | None = None
    for number, name in enumerate(plan.parts, 1):
        if name in known:
            found.append(known[name])
            continue
        tell(f"measuring what {name} is worth in place ({number} of {len(plan.parts)})")
        try:
            if whole is None:
                (whole,) = lab.arms(plan, anew=False)
            (less,) = lab.arms(plan.without(name), anew=False)
            found.append(_worth(name, less, compare(less, whole, seed=number, limit_s=EACH_S)))
            less.worker.close()
        except WorkerFailure as failure:
            why = failure.in_a_line()
            found.append(Worth(technique=name, ratio=1.0, low=1.0, high=1.0, failure=why))
            lab.close_workers()  # either may be the one that failed
            whole = None
        note(found[-1])
    lab.close_workers()
    return tuple(found)


def _worth(name: str, less: Arm, comparison: Comparison) -> Worth:
    return Worth(
        technique=name,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        lost=tuple(each.technique for each in less.applied if each.outcome != "done"),
    )


def idle(worth: tuple[Worth, ...], noise_floor: float) -> list[str]:
    """Parts without which the plan is faster, by more than identical processes differ: another made
    them useless."""
    return [each.technique for each in worth if not each.failure and each.high < 1 / noise_floor]
