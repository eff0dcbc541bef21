"""Where the time of a step goes under a plan: measured once, and known again after a stop.

A profile takes no turns: whatever else runs meanwhile stretches its parts, each by another factor.
So it is held against what the naive training took in turns with itself, and taken again where it is
far from that.
"""

import statistics
from collections.abc import Callable
from functools import partial

from hasten.diagnose.diagnose import diagnose
from hasten.measure.lab import Lab
from hasten.measure.messages import Described
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Ceilings, Diagnosis, ProfileParts
from hasten.records.scan import CodeCost
from hasten.records.tuning import Diagnosed
from hasten.report.text import duration
from hasten.tune.code import code_costs
from hasten.tune.journal import Journal, Learnt

Tell = Callable[[str], None]

DISTURBED = 1.5
"""Times what a naive step took in turns: whoever profiles one that is longer has profiled a
neighbour. Marks and watches take some per cent."""
MOST_PROFILES = 3


def diagnosis_of(parts: ProfileParts, described: Described) -> Diagnosis:
    return diagnose(
        parts,
        described.traits.model,
        described.environment.device,
        task_place=described.task_place,
        model_place=described.model_place,
    )


class Examiner:
    def __init__(
        self,
        lab: Lab,
        described: Described,
        journal: Journal,
        learnt: Learnt,
        tell: Tell,
        *,
        row_s: float,
    ) -> None:
        """``row_s`` is what the naive training took in turns, for a row of data."""
        self._lab, self._row_s = lab, row_s
        self._described = described
        self._journal = journal
        self._learnt = learnt
        self._tell = tell
        self._ceilings: Ceilings | None = None
        self.asked: list[Plan] = []
        """Those that could not be profiled are among them."""
        self.done: list[Diagnosed] = []
        """In the order in which they were asked for, the naive training first."""

    def examine(self, plan: Plan = NAIVE, times_faster: float = 1.0) -> Diagnosed:
        """Raises HastenError where the plan cannot be profiled. ``times_faster`` than naive it was
        in trials: one that is slower, for want of memory, is not disturbed by that."""
        self.asked.append(plan)
        found = self._learnt.diagnosed.get(str(plan.parts))
        if found is None:
            found = self._measure(plan, self._row_s / min(times_faster, 1.0))
            if not found.disturbed:
                self._journal.note(found)
        self.done.append(found)
        return found

    def _measure(self, plan: Plan, row_s: float) -> Diagnosed:
        parts = self._profile(plan, row_s)
        self._ceilings = parts.ceilings  # of the machine, which stays the same
        found = diagnosis_of(parts, self._described)
        return Diagnosed(
            plan=plan,
            measurement=parts.measurement,
            limit=found.limit,
            why=found.why,
            findings=found.findings,
            peak_bytes=parts.memory.peak_bytes if parts.memory else None,
            code=self._code_of(parts) if plan == NAIVE else (),
            disturbed=_disturbance(parts, row_s),
        )

    def _profile(self, plan: Plan, row_s: float) -> ProfileParts:
        """The quickest of as many as it takes."""
        profile = partial(self._lab.profile, plan, self._tell, ceilings=self._ceilings)
        best = profile()
        for _ in range(MOST_PROFILES - 1):
            if not _disturbance(best, row_s):
                break
            self._tell("measuring that once more: something else kept the machine busy")
            best = min(best, profile(), key=lambda each: each.measurement.step_s())
        return best

    def _code_of(self, parts: ProfileParts) -> tuple[CodeCost, ...]:
        places = self._described.task_place, self._described.model_place
        return code_costs(parts, *places, lines_run=self._lab.lines_run)


def _disturbance(parts: ProfileParts, row_s: float) -> str:
    took_s = parts.measurement.step_s()
    usual_s = row_s * statistics.median(parts.measurement.rows)
    if took_s <= DISTURBED * usual_s:
        return ""
    return (
        f"a step took {duration(took_s)} while this was measured, and no more than"
        f" {duration(usual_s)} in turns with another: something else kept the machine busy"
    )
