"""Trains a plan, and another one until it has reached what the first came to (stats.target)."""

import time
from dataclasses import dataclass

from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import Plan
from hasten.records.trial import Outcome
from hasten.stats.target import CHECKPOINTS, LATE, reached, target_of

MOST_ROWS = 4
"""So many times the rows of the unchanged training are enough to have missed its target."""
GRACE_S = 120.0
"""For building the task and for evaluations, beyond the time that is left."""


class NoVerdict(Exception):  # noqa: N818  # a reason, not a fault: it becomes a row
    """Nothing can be claimed, and what the row is to say."""

    def __init__(self, outcome: Outcome, why: str, detail: str = "") -> None:
        super().__init__(why)
        self.outcome, self.why, self.detail = outcome, why, detail


@dataclass(frozen=True)
class Goal:
    """What the unchanged training came to from a seed."""

    seed: int
    target: dict[str, float]
    higher: tuple[str, ...]
    rows: int
    """After which it was not there yet, at the last checkpoint before it was."""


class TargetTrainer:
    """Every training in a process of its own. Raises NoVerdict where one tells nothing."""

    def __init__(self, lab: Lab, plan: Plan, every_rows: int, deadline: float) -> None:
        self._lab, self._plan = lab, plan
        self._every_rows, self._deadline = every_rows, deadline
        self._goals: dict[int, Goal] = {}

    def goal(self, seed: int) -> Goal:
        if seed not in self._goals:
            self._goals[seed] = self._find(seed)
        return self._goals[seed]

    def rows_to(self, goal: Goal, plan: Plan, speed: float) -> int:
        """Of ``plan`` from the same seed. It has as much time as the unchanged training takes, at
        ``speed`` times as many rows a second."""
        checkpoints = int(CHECKPOINTS * min(speed, MOST_ROWS))
        trained = self._train(plan, goal.seed, checkpoints, goal.target)
        if trained.ended == "reached":
            return trained.rows[-1]
        if trained.ended == "not_finite":
            raise NoVerdict("missed_target", f"from seed {goal.seed} its loss is not finite")
        rows = f"{checkpoints * self._every_rows:,} rows"
        raise NoVerdict("missed_target", f"from seed {goal.seed} it is not there after {rows}")

    def _find(self, seed: int) -> Goal:
        trained = self._train(self._plan, seed, CHECKPOINTS, None)
        if trained.ended == "not_finite":
            raise NoVerdict("no_verdict", f"the unchanged training diverges from seed {seed}")
        target = target_of(trained.course)
        at = reached(trained.course, target, trained.higher)
        if at is None or at < LATE:
            why = f"from seed {seed} the unchanged training gets no better: there is no target"
            raise NoVerdict("no_verdict", why)
        return Goal(seed, target, trained.higher, trained.rows[at - 2])

    def _train(
        self, plan: Plan, seed: int, checkpoints: int, target: dict[str, float] | None
    ) -> messages.TargetTrained:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise NoVerdict("out_of_time", "the time was spent")
        request = messages.TrainToTarget(
            task=self._lab.task,
            plan=plan,
            seed=seed,
            every_rows=self._every_rows,
            checkpoints=checkpoints,
            target=target,
            limit_s=left_s,
        )
        try:
            with self._lab.worker() as worker:
                trained = worker.ask(request, messages.TargetTrained, left_s + GRACE_S)
        except WorkerFailure as failure:
            raise failed(failure) from failure
        lost = [each for each in trained.applied if each.outcome != "done"]
        if lost:
            raise NoVerdict("fell_back", str(lost[0]))
        if trained.ended == "out_of_time":
            raise NoVerdict("out_of_time", "the time was spent")
        return trained


def failed(failure: WorkerFailure) -> NoVerdict:
    found = failure.failed
    outcome: Outcome = "out_of_memory" if found.kind == "out_of_memory" else "failed"
    return NoVerdict(outcome, found.what, found.detail)
