"""Would a larger batch come to the same sooner? Only where that is allowed, on top of the plan that
was proven, and judged by time to target (stats.target), never by rows a second.

Each batch is timed against the task's own. Those that do more rows a second are trained from two
seeds, to see which is there first; that one is trained from five other seeds and timed again in
fresh processes, and only that is claimed. Where it does not hold, the next one is.
"""

import statistics
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.measure.compare import is_hopeless
from hasten.measure.lab import Lab
from hasten.measure.messages import Described
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import NAIVE, Plan, RawPart
from hasten.records.recipe import Evidence
from hasten.records.record import Record
from hasten.records.target import Allowed
from hasten.records.trial import Candidate, Offer, Outcome, Trial, trial_key
from hasten.records.tuning import Aim
from hasten.records.verdict import Comparison
from hasten.report.text import interval, size
from hasten.stats.paired import CONFIDENCE
from hasten.stats.target import CHECKPOINTS
from hasten.tune.confirm import claim_speed, confirm
from hasten.tune.journal import Journal, Learnt
from hasten.tune.rivals import IncumbentFailure, Meeting, Rivals, Terms
from hasten.tune.target import NoVerdict, TargetTrainer, claim_time, failed

TECHNIQUE = "batch_size"
TIMED_S = 8.0
EXPLORED, PROVEN = range(100, 102), range(200, 205)
"""Seeds, counted from the tuning's: those that choose a batch, and others that prove it."""
LEAST_STEPS, MOST_STEPS = 96, 8192
"""Of the unchanged training: as many as the time allows."""
TRAININGS = 5 * len(EXPLORED) + 2 * len(PROVEN)
"""That may have to be done, each as long as the unchanged one."""
STEPPING = 0.5
"""Of the time; the rest is for building, compiling and evaluating."""


def refuse_contradiction(aim: Aim, allow: Collection[Allowed]) -> None:
    if aim.goal == "memory" and "batch-size" in allow:
        raise HastenError(
            "--allow batch-size and --goal memory contradict each other.",
            fix="A larger batch takes more memory: leave one of them out.",
        )


def try_larger_batch(
    lab: Lab,
    described: Described,
    evidence: Evidence,
    noise_floor: float,
    limit_s: float,
    journal: Journal,
    learnt: Learnt,
    tell: Callable[[str], None],
) -> tuple[Trial, ...]:
    """On top of what the evidence proves, or of the naive training where it proves nothing. A batch
    that was kept with the same plan before is proven again; only if that fails all are tried."""
    (offer,) = (each for each in described.offers if each.technique == TECHNIQUE)
    if evidence.plan != NAIVE and evidence.outcome != "recipe":
        offer = replace(offer, refusal="the plan that it would stand on is not proven")
    larger = partial(
        LargerBatch,
        lab=lab,
        base=evidence.plan,
        batch=described.traits.data.batch_size or 0,
        noise_floor=noise_floor,
        limit_s=limit_s,
        memory_bytes=evidence.aim.memory_bytes,
        note=journal.note,
        known=learnt.trials,
        tell=tell,
        chances=len(offer.parts) + 1,
    )
    earlier = evidence.changed()
    if earlier is not None:
        again = larger().try_all(replace(offer, parts=(earlier.candidate.part,)))
        if any(each.outcome == "kept" for each in again):
            return again
    return larger().try_all(offer)


@dataclass(kw_only=True)
class LargerBatch:
    """Every batch has a row, whatever becomes of it; one that is left on the way is out of time."""

    lab: Lab
    base: Plan
    """The unchanged training."""
    batch: int
    """Rows of its steps."""
    noise_floor: float
    limit_s: float
    memory_bytes: int | None
    """The most that a step may take."""
    note: Callable[[Record], None]
    known: Mapping[str, Trial]
    """Of an earlier tuning that was stopped."""
    tell: Callable[[str], None]
    chances: int
    """Proofs that there can be, of which each has its share of the error: one for every batch, and
    one more of a batch that was kept before."""
    _rows: dict[str, Trial] = field(default_factory=dict)
    _timed: dict[str, Comparison] = field(default_factory=dict)
    """Of those that do more rows a second."""

    def try_all(self, offer: Offer) -> tuple[Trial, ...]:
        """At most one row is "kept"."""
        candidates = [_candidate(offer, part) for part in offer.parts or ({},)]
        deadline = time.monotonic() + self.limit_s
        for each in candidates:
            known = self.known.get(trial_key(self.base, each))
            if offer.refusal is not None:
                self._set(each, "not_tried", offer.refusal)
            elif known is not None and known.tells():
                self._rows[each.key()] = known
            else:
                self._attempt(self._time, each)
        if self._timed:
            self._race([each for each in candidates if each.key() in self._timed], deadline)
        return tuple(self._rows[each.key()] for each in candidates)

    def _attempt(self, work: Callable[[Candidate], None], candidate: Candidate) -> None:
        try:
            work(candidate)
        except NoVerdict as reason:
            self._set(candidate, reason.outcome, reason.why, detail=reason.detail)

    def _set(self, candidate: Candidate, outcome: Outcome, why: str, **more: object) -> None:
        row = self._rows.get(candidate.key())
        row = row or Trial(candidate=candidate, on=self.base, outcome=outcome, why=why)
        row = self._rows[candidate.key()] = replace(row, outcome=outcome, why=why, **more)
        if row.tells():
            self.note(row)

    def _time(self, candidate: Candidate) -> None:
        """What does no more rows a second is not worth training."""
        self.tell(f"timing {self._words(candidate)}")
        plan = candidate.plan_on(self.base)
        try:
            met = self._meet(plan)
            peak = self.lab.peak(plan) if self.memory_bytes is not None else None
        except IncumbentFailure as failure:
            why = f"what it was compared with failed: {failure.in_a_line()}"
            raise NoVerdict("no_verdict", why, failure.failed.detail) from failure
        except WorkerFailure as failure:
            raise failed(failure) from failure
        if (lost := met.fell_back()) is not None:
            raise NoVerdict("not_tried" if lost.outcome == "skipped" else "fell_back", lost.why)
        found = met.comparison
        assert found is not None  # it did not fall back
        self._set(candidate, "out_of_time", "the time was spent", comparison=found, peak_bytes=peak)
        if self.memory_bytes is not None and peak is not None and peak > self.memory_bytes:
            allowed = size(self.memory_bytes)
            raise NoVerdict("too_large", f"a peak of {size(peak)}, where {allowed} are allowed")
        if found.low <= self.noise_floor:
            slow = is_hopeless(found.ratio, found.high, found.margin)
            why = f"rows a second: {interval(found.low, found.high)}"
            raise NoVerdict("not_faster" if slow else "no_verdict", why)
        self._timed[candidate.key()] = found

    def _meet(self, plan: Plan) -> Meeting:
        terms = Terms(
            seed=0,
            confidence=CONFIDENCE,
            margin=self.noise_floor - 1,
            limit_s=min(TIMED_S, self.limit_s / TRAININGS),
            warm_limit_s=self.limit_s,
        )
        rivals = Rivals(self.lab, device_bytes=None)
        try:
            return rivals.meet(self.base, plan, terms)
        finally:
            rivals.end()

    def _race(self, faster: list[Candidate], deadline: float) -> None:
        rounds = [each for one in self._timed.values() for each in one.rounds]
        step_s = self.batch * statistics.median(each.a_s for each in rounds)
        fit = int(STEPPING * (deadline - time.monotonic()) / TRAININGS / step_s)
        every = min(fit, MOST_STEPS) // CHECKPOINTS
        if every * CHECKPOINTS < LEAST_STEPS:
            why = f"{fit} steps a training fit into the time, and {LEAST_STEPS} are needed"
            for each in faster:
                self._set(each, "out_of_time", why)
            return
        trainer = TargetTrainer(self.lab, self.base, self.batch, every, deadline)
        soon: dict[str, float] = {}
        for each in faster:
            self._attempt(lambda one: soon.update({one.key(): self._explore(one, trainer)}), each)
        ranked = [each for each in faster if each.key() in soon]
        for each in sorted(ranked, key=lambda one: -soon[one.key()]):
            best = next((row for row in self._rows.values() if row.outcome == "kept"), None)
            words = f"{soon[each.key()]:.2f}x as soon at the target in {len(EXPLORED)} trainings"
            if best is not None:
                words += f", no better than times = {_times(best.candidate)}"
                self._set(each, "not_faster", words)
            elif soon[each.key()] <= self.noise_floor:
                self._set(each, "not_faster", words)
            else:
                self._attempt(lambda one: self._prove(one, trainer), each)

    def _explore(self, candidate: Candidate, trainer: TargetTrainer) -> float:
        """How many times as soon it seems to be at the target."""
        self.tell(f"training {self._words(candidate)} to the target")
        if _times(candidate) > trainer.every_steps:
            why = f"in the rows of {trainer.steps:,} steps it has too few of its own"
            raise NoVerdict("out_of_time", why)
        plan, speed = candidate.plan_on(self.base), self._timed[candidate.key()].ratio
        goals = [trainer.goal(self.lab.seed + each) for each in EXPLORED]
        shares = [each.rows / trainer.rows_to(each, plan, speed) for each in goals]
        return speed * statistics.geometric_mean(shares)

    def _prove(self, candidate: Candidate, trainer: TargetTrainer) -> None:
        plan = candidate.plan_on(self.base)
        self.tell(f"training {self._words(candidate)} and its own batch from other seeds")
        goals = [trainer.goal(self.lab.seed + each) for each in PROVEN]
        confirmation = confirm(self.lab, self.base, plan, self.noise_floor, self.tell)
        speed = claim_speed(confirmation, self.noise_floor)
        if speed is None:
            why = confirmation.failure or "a technique did not run in the fresh processes"
            raise NoVerdict("failed", why)
        rows = [trainer.rows_to(each, plan, speed.ratio) for each in goals]
        claim = claim_time(goals, rows, speed, self.noise_floor, self.chances)
        changes = next(each.why for each in confirmation.applied if each.technique == TECHNIQUE)
        claim = replace(claim, changes=changes, steps=trainer.steps, pairs=confirmation.pairs)
        outcome: Outcome = "not_faster" if claim.verdict == "refuted" else "no_verdict"
        if claim.verdict == "proven":
            outcome = "kept"
        why = f"{claim.ratio:.2f}x as soon at the target ({interval(claim.low, claim.high)})"
        words = f"{why}, over {len(goals)} seeds of {trainer.steps:,} steps"
        self._set(candidate, outcome, words, target=claim)

    def _words(self, candidate: Candidate) -> str:
        return f"a batch of {_times(candidate) * self.batch} rows"


def _candidate(offer: Offer, part: RawPart) -> Candidate:
    return Candidate(
        technique=offer.technique,
        part=part,
        rung=offer.rung,
        finding="",
        bound=1.0,
    )


def _times(candidate: Candidate) -> int:
    return int(str(candidate.part["times"]))
