"""What is each part of a plan worth, in place? The whole plan against itself without the part."""

from collections.abc import Callable, Mapping
from functools import partial

from hasten.measure.compare import Arm, compare
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure, once_more
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
    found: list[Worth] = []
    weighing = Weighing(lab, plan)
    for number, name in enumerate(plan.parts, 1):
        if name in known:
            found.append(known[name])
            continue
        tell(f"measuring what {name} is worth in place ({number} of {len(plan.parts)})")
        try:
            found.append(once_more(partial(weighing.weigh, name, seed=number)))
        except WorkerFailure as failure:
            why = failure.in_a_line()
            found.append(Worth(technique=name, ratio=1.0, low=1.0, high=1.0, failure=why))
        note(found[-1])
    lab.close_workers()
    return tuple(found)


class Weighing:
    """The whole plan's process stays for all of its parts."""

    def __init__(self, lab: Lab, plan: Plan) -> None:
        self._lab, self._plan = lab, plan
        self._whole: Arm | None = None

    def weigh(self, name: str, seed: int) -> Worth:
        try:
            if self._whole is None:
                (self._whole,) = self._lab.arms(self._plan, anew=False)
            (less,) = self._lab.arms(self._plan.without(name), anew=False)
            comparison = compare(less, self._whole, seed=seed, limit_s=EACH_S)
        except WorkerFailure:
            self._lab.close_workers()  # either may be the one that failed
            self._whole = None
            raise
        less.worker.close()
        return _worth(name, less, comparison)


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
