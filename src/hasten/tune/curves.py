"""Losses of both sides to look at, for plans whose proof trains nothing.

A plan on the bitwise or the rounding rung is proven by its steps. Its reader still wants to see
both trainings go down together, and how far apart two seeds are anyway. So a few seeds are trained
for a while. This may refute, as any pair of seeds may; it never proves, and where it fails there
is no curve, and the claims stay as they are.
"""

import time
from collections.abc import Callable

from hasten.measure.lab import Lab
from hasten.measure.messages import SeedTrained
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.curves import Curves
from hasten.records.plan import NAIVE, Plan
from hasten.records.verdict import Check
from hasten.tune.parity import judge_pair
from hasten.tune.seeds import LEAST_STEPS, curve_of, seed_to_train

CURVES_S = 20.0
"""For all of it; half of that for the naive seeds, if there is more than one."""
SEEDS = 3
"""The fewest between which a band looks like one."""
SHARE = 8
"""So much of the time is for the steps of a seed, after which there are fewer of them."""


class CurveTrainer:
    """Trains once. ``against`` is what then speaks against the plan, where something does."""

    def __init__(self, lab: Lab, plan: Plan, seed: int) -> None:
        self._lab, self._plan, self._seed = lab, plan, seed
        self._began = time.monotonic()
        self._last_s = 0.0
        self._naive: list[SeedTrained] = []
        self._by_plan: list[SeedTrained] = []
        self._failure = ""
        self.against: Check | None = None

    def train(self, tell: Callable[[str], None]) -> Curves:
        try:
            tell("training a few seeds naively, for the loss curves")
            self._train(NAIVE, self._naive, SEEDS, CURVES_S / 2)
            tell("training the same seeds by the plan, for the loss curves")
            self._train(self._plan, self._by_plan, len(self._naive), CURVES_S)
        except WorkerFailure as failure:
            spent = f"the {CURVES_S:.0f} s for them were spent"
            self._failure = spent if failure.failed.kind == "hung" else failure.in_a_line()
        return Curves(
            steps=len(self._naive[0].losses) if self._naive else 0,
            seeds=tuple(self._seed + at for at in range(len(self._naive))),
            naive=tuple(map(curve_of, self._naive)),
            plan=tuple(map(curve_of, self._by_plan)),
            failure=self._failure,
        )

    def _train(self, plan: Plan, done: list[SeedTrained], most: int, until_s: float) -> None:
        """The first seed in any case, more as long as they end in time."""
        with self._lab.worker() as worker:
            while len(done) < most and (not done or self._spent_s() + self._last_s < until_s):
                began = self._spent_s()
                trained = self._train_one(worker, plan, self._seed + len(done))
                self._last_s = self._spent_s() - began
                if plan != NAIVE and not self._is_good(trained, self._naive[len(done)]):
                    return
                done.append(trained)

    def _train_one(self, worker: Worker, plan: Plan, seed: int) -> SeedTrained:
        request = seed_to_train(
            self._lab.task,
            plan,
            seed,
            steps=len(self._naive[0].losses) if self._naive else None,
            steps_s=CURVES_S / SHARE,
            evaluates=False,
        )
        limit_s = max(CURVES_S - self._spent_s(), 0.0)
        return worker.ask(request, SeedTrained, limit_s)

    def _is_good(self, plan: SeedTrained, naive: SeedTrained) -> bool:
        """Whether it is a curve of the plan. What refutes one is kept, and drawn."""
        lost = [each for each in plan.applied if each.outcome != "done"]
        if lost:
            self._failure = str(lost[0])
            return False
        if len(naive.losses) >= LEAST_STEPS and self.against is None:
            check = judge_pair(naive, plan, self._seed + len(self._by_plan))
            self.against = check if check and check.verdict == "refuted" else None
        return True

    def _spent_s(self) -> float:
        return time.monotonic() - self._began
