"""Trains a plan, and another one until it has reached what the first came to (stats.target)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure, once_more
from hasten.records.plan import Plan
from hasten.records.target import SeedToTarget, TimeToTarget
from hasten.records.trial import Outcome
from hasten.records.verdict import SpeedClaim, Verdict
from hasten.stats.paired import CONFIDENCE, Interval
from hasten.stats.target import CHECKPOINTS, LATE, has_fallen, reached, sooner, target_of

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

    def __init__(self, lab: Lab, plan: Plan, batch: int, every_steps: int, deadline: float) -> None:
        """``plan`` is the unchanged training, of ``batch`` rows a step and looked at after every so
        many; ``deadline`` is by the monotonic clock."""
        self._lab, self._plan = lab, plan
        self._every_rows, self._deadline = every_steps * batch, deadline
        self.every_steps = every_steps
        self.steps = every_steps * CHECKPOINTS
        self._goals: dict[int, Goal | NoVerdict] = {}

    def goal(self, seed: int) -> Goal:
        """Trained for once, whatever came of it."""
        if seed not in self._goals:
            try:
                self._goals[seed] = self._find(seed)
            except NoVerdict as reason:
                self._goals[seed] = reason
        found = self._goals[seed]
        if isinstance(found, NoVerdict):
            raise found
        return found

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
        if at is None or at < LATE or not has_fallen(trained.course):
            why = f"from seed {seed} the unchanged training gets no better: there is no target"
            raise NoVerdict("no_verdict", why)
        return Goal(seed, target, trained.higher, trained.rows[at - 2])

    def _train(
        self, plan: Plan, seed: int, checkpoints: int, target: dict[str, float] | None
    ) -> messages.TargetTrained:
        try:
            trained = once_more(partial(self._ask, plan, seed, checkpoints, target))
        except WorkerFailure as failure:
            raise failed(failure) from failure
        lost = [each for each in trained.applied if each.outcome != "done"]
        if lost:
            raise NoVerdict("fell_back", str(lost[0]))
        if trained.ended == "out_of_time":
            raise NoVerdict("out_of_time", "the time was spent")
        return trained

    def _ask(
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
        with self._lab.worker() as worker:
            return worker.ask(request, messages.TargetTrained, left_s + GRACE_S)


def claim_time(
    goals: Sequence[Goal], rows: Sequence[int], speed: SpeedClaim, noise_floor: float, among: int
) -> TimeToTarget:
    """Of one of ``among`` changed trainings, each of which had a chance to be the lucky one."""
    confidence = 1 - (1 - CONFIDENCE) / among
    faster = Interval(speed.ratio, speed.low, speed.high)
    found = sooner([each.rows for each in goals], rows, faster, confidence)
    verdict: Verdict = "refuted" if found.high < 1 else "not_proven"
    return TimeToTarget(
        verdict="proven" if found.low > noise_floor else verdict,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        confidence=confidence,
        higher=goals[0].higher,
        seeds=tuple(
            SeedToTarget(seed=goal.seed, target=goal.target, a_rows=goal.rows, b_rows=count)
            for goal, count in zip(goals, rows, strict=True)
        ),
        speed=speed,
    )


def failed(failure: WorkerFailure) -> NoVerdict:
    found = failure.failed
    outcome: Outcome = "out_of_memory" if found.kind == "out_of_memory" else "failed"
    return NoVerdict(outcome, found.what, found.detail)
