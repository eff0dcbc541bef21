"""Would a larger batch come to the same sooner? Only where that is allowed, on top of the plan that
the search came to, and judged by time to target (stats.target), never by rows a second.

Each batch is timed against the task's own. Those that do more rows a second are trained from two
seeds, to see which is there first; that one is trained from five other seeds and timed again in
fresh processes, and only that is claimed.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from hasten.measure.compare import compare
from hasten.measure.lab import Lab
from hasten.measure.messages import Described
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.plan import NAIVE, Plan, RawPart
from hasten.records.recipe import Evidence
from hasten.records.record import Record
from hasten.records.target import SeedToTarget, TimeToTarget
from hasten.records.trial import UNTRIED, Candidate, Offer, Outcome, Trial, trial_key
from hasten.records.tuning import Aim
from hasten.report.text import size
from hasten.stats.paired import CONFIDENCE, Interval
from hasten.stats.target import CHECKPOINTS, sooner
from hasten.tune.confirm import claim_speed, confirm
from hasten.tune.journal import Journal, Learnt
from hasten.tune.target import NoVerdict, TargetTrainer, failed

TECHNIQUE = "batch_size"
TIMED_S = 8.0
EXPLORED, PROVEN = range(100, 102), range(200, 205)
"""Seeds, counted from the tuning's: those that choose a batch, and others that prove it."""
LEAST_STEPS, MOST_STEPS = 96, 2048
"""Of the unchanged training."""
TRAININGS = 5 * len(EXPLORED) + 2 * len(PROVEN)
"""That may have to be done, each as long as the unchanged one."""


@dataclass
class LargerBatch:
    lab: Lab
    base: Plan
    """The unchanged training."""
    batch: int
    """Rows of its steps."""
    noise_floor: float
    limit_s: float
    aim: Aim
    note: Callable[[Record], None]
    known: Mapping[str, Trial]
    """Of an earlier tuning that was stopped."""
    tell: Callable[[str], None]
    _rows: dict[str, Trial] = field(default_factory=dict)
    _timed: dict[str, float] = field(default_factory=dict)
    """Seconds of a step of the unchanged training, beside each batch."""

    def try_all(self, offer: Offer) -> tuple[Trial, ...]:
        """A row for each batch that is offered; at most one is kept."""
        candidates = [_candidate(offer, part) for part in offer.parts or ({},)]
        deadline = time.monotonic() + self.limit_s
        for each in candidates:
            if offer.refusal is not None or not offer.parts:
                self._set(each, "not_tried", offer.refusal or "the data has too few rows")
            elif (known := self.known.get(trial_key(self.base, each))) and (
                known.outcome not in UNTRIED
            ):
                self._rows[each.key()] = known
            else:
                self._attempt(each, self._time)
        faster = [each for each in candidates if each.key() in self._timed]
        if faster:
            self._race(faster, deadline)
        return tuple(self._rows[each.key()] for each in candidates)

    def _attempt(self, candidate: Candidate, work: Callable[[Candidate], None]) -> None:
        try:
            work(candidate)
        except NoVerdict as reason:
            self._set(candidate, reason.outcome, reason.why, detail=reason.detail)

    def _set(self, candidate: Candidate, outcome: Outcome, why: str, **more: object) -> None:
        row = self._rows.get(candidate.key())
        row = row or Trial(candidate=candidate, on=self.base, outcome=outcome, why=why)
        row = self._rows[candidate.key()] = replace(row, outcome=outcome, why=why, **more)
        if outcome not in UNTRIED:
            self.note(row)

    def _time(self, candidate: Candidate) -> None:
        """Is it worth training? What does no more rows a second, reaches nothing sooner."""
        self.tell(f"timing a batch of {_times(candidate)} x {self.batch} rows")
        plan = candidate.plan_on(self.base)
        try:
            arm, larger = self.lab.arms(self.base, plan, anew=False)
            found = compare(arm, larger, seed=_times(candidate), only_faster=True, limit_s=TIMED_S)
            larger.read()
            lost = larger.fell_back()
            self.lab.close_workers()
            peak = self.lab.peak(plan) if self.aim.memory_bytes is not None else None
        except WorkerFailure as failure:
            self.lab.close_workers()
            raise failed(failure) from failure
        if lost is not None:
            raise NoVerdict("not_tried" if lost.outcome == "skipped" else "fell_back", str(lost))
        self._set(candidate, "out_of_time", "the time was spent", comparison=found, peak_bytes=peak)
        if peak is not None and peak > (self.aim.memory_bytes or 0):
            raise NoVerdict("too_large", f"a step takes {size(peak)} at its peak")
        if found.low < self.noise_floor:
            reach = f"{found.low:.2f}x to {found.high:.2f}x as many"
            raise NoVerdict("not_faster", f"{reach} rows a second: nothing to spend on more rows")
        self._timed[candidate.key()] = self.batch * statistics.median(
            each.a_s for each in found.rounds
        )

    def _race(self, faster: list[Candidate], deadline: float) -> None:
        step_s = min(self._timed.values())
        fit = int((deadline - time.monotonic()) / TRAININGS / step_s)
        every = min(fit, MOST_STEPS) // CHECKPOINTS
        if every * CHECKPOINTS < LEAST_STEPS:
            why = f"{fit} steps a training fit into the time, and {LEAST_STEPS} are needed"
            for each in faster:
                self._set(each, "out_of_time", why)
            return
        trainer = TargetTrainer(self.lab, self.base, every * self.batch, deadline)
        scores: dict[str, float] = {}

        def explore(candidate: Candidate) -> None:
            if _times(candidate) > every:
                why = f"in {every * CHECKPOINTS} steps' rows it has too few steps of its own"
                raise NoVerdict("out_of_time", why)
            scores[candidate.key()] = self._explore(trainer, candidate)

        for each in faster:
            self._attempt(each, explore)
        open_ = [each for each in faster if each.key() in scores]
        for each in sorted(open_, key=lambda one: -scores[one.key()]):
            score = scores[each.key()]
            best = next((row for row in self._rows.values() if row.outcome == "kept"), None)
            words = f"{score:.2f}x as soon at the target in {len(EXPLORED)} trainings"
            if best is not None:
                self._set(each, "not_faster", f"{words}, no better than {best.candidate.key()}")
            elif score <= self.noise_floor:
                self._set(each, "not_faster", words)
            else:
                self._attempt(
                    each, lambda one: self._prove(trainer, one, every * CHECKPOINTS, len(faster))
                )

    def _explore(self, trainer: TargetTrainer, candidate: Candidate) -> float:
        comparison = self._rows[candidate.key()].comparison
        assert comparison is not None  # those that are raced were timed
        ratios = []
        for seed in EXPLORED:
            self.tell(
                f"training {_times(candidate)} x {self.batch} rows to the target, seed {seed}"
            )
            goal = trainer.goal(self.lab.seed + seed)
            plan = candidate.plan_on(self.base)
            ratios.append(goal.rows / trainer.rows_to(goal, plan, comparison.ratio))
        return comparison.ratio * statistics.geometric_mean(ratios)

    def _prove(self, trainer: TargetTrainer, candidate: Candidate, steps: int, among: int) -> None:
        plan = candidate.plan_on(self.base)
        confirmation = confirm(self.lab, self.base, plan, self.noise_floor, self.tell)
        speed = claim_speed(confirmation, self.noise_floor)
        if speed is None:
            why = confirmation.failure or "a technique did not run in the fresh processes"
            raise NoVerdict("failed", why)
        seeds: list[SeedToTarget] = []
        for seed in PROVEN:
            self.tell(f"proving {_times(candidate)} x {self.batch} rows, seed {seed}")
            goal = trainer.goal(self.lab.seed + seed)
            rows = trainer.rows_to(goal, plan, speed.ratio)
            seeds.append(
                SeedToTarget(seed=goal.seed, target=goal.target, a_rows=goal.rows, b_rows=rows)
            )
        # Each that was raced had a chance to be the lucky one.
        confidence = 1 - (1 - CONFIDENCE) / among
        found = sooner(
            [each.a_rows for each in seeds],
            [each.b_rows for each in seeds],
            Interval(speed.ratio, speed.low, speed.high),
            confidence,
        )
        proven = found.low > self.noise_floor
        outcome: Outcome = "not_faster" if found.high < self.noise_floor else "no_verdict"
        claim = TimeToTarget(
            verdict="proven" if proven else "not_proven",
            ratio=found.ratio,
            low=found.low,
            high=found.high,
            confidence=confidence,
            changes=_changes(confirmation.applied),
            steps=steps,
            higher=goal.higher,
            seeds=tuple(seeds),
            speed=speed,
            pairs=confirmation.pairs,
        )
        why = f"{found.ratio:.2f}x as soon ({found.low:.2f}x to {found.high:.2f}x)"
        words = f"{why} at the target, over {len(seeds)} seeds of {steps:,} steps"
        self._set(candidate, "kept" if proven else outcome, words, target=claim)


def try_larger_batch(
    lab: Lab,
    described: Described,
    evidence: Evidence,
    floor: float,
    limit_s: float,
    journal: Journal,
    learnt: Learnt,
    tell: Callable[[str], None],
) -> tuple[Trial, ...]:
    """On top of what was proven; of nothing where nothing was tried to the end."""
    (offer,) = (each for each in described.offers if each.technique == TECHNIQUE)
    if evidence.plan != NAIVE and evidence.outcome != "recipe":
        offer = replace(offer, refusal="the plan that it would stand on is not proven")
    larger = LargerBatch(
        lab=lab,
        base=evidence.plan,
        batch=described.traits.data.batch_size or 0,
        noise_floor=floor,
        limit_s=limit_s,
        aim=evidence.aim,
        note=journal.note,
        known=learnt.trials,
        tell=tell,
    )
    return larger.try_all(offer)


def _candidate(offer: Offer, part: RawPart) -> Candidate:
    return Candidate(
        technique=offer.technique,
        part=part,
        rung=offer.rung,
        finding="",
        bound=1.0,
        changes_data=True,
    )


def _times(candidate: Candidate) -> int:
    return int(str(candidate.part["times"]))


def _changes(applied: tuple[Applied, ...]) -> str:
    """In the words of the technique itself."""
    return next(each.why for each in applied if each.technique == TECHNIQUE)
