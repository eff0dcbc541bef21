"""Where the time of a step goes under a plan: measured once, and known again after a stop."""

from collections.abc import Callable

from hasten.diagnose.diagnose import diagnose
from hasten.measure.lab import Lab
from hasten.measure.messages import Described
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Ceilings, Diagnosis, ProfileParts
from hasten.records.scan import CodeCost
from hasten.records.tuning import Diagnosed
from hasten.tune.code import code_costs
from hasten.tune.journal import Journal, Learnt

Tell = Callable[[str], None]


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
        self, lab: Lab, described: Described, journal: Journal, learnt: Learnt, tell: Tell
    ) -> None:
        self._lab = lab
        self._described = described
        self._journal = journal
        self._learnt = learnt
        self._tell = tell
        self._ceilings: Ceilings | None = None
        self.asked: list[Plan] = []
        """Those that could not be profiled are among them."""
        self.done: list[Diagnosed] = []
        """In the order in which they were asked for, the naive training first."""

    def examine(self, plan: Plan = NAIVE) -> Diagnosed:
        """Raises HastenError where the plan cannot be profiled."""
        self.asked.append(plan)
        found = self._learnt.diagnosed.get(str(plan.parts))
        if found is None:
            found = self._measure(plan)
            self._journal.note(found)
        self.done.append(found)
        return found

    def _measure(self, plan: Plan) -> Diagnosed:
        parts = self._lab.profile(plan, self._tell, ceilings=self._ceilings)
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
        )

    def _code_of(self, parts: ProfileParts) -> tuple[CodeCost, ...]:
        places = self._described.task_place, self._described.model_place
        return code_costs(parts, *places, lines_run=self._lab.lines_run)
