"""The ratchet: try the answers to what costs most, keep what is faster beyond doubt and holds its
rung, look again at what costs most now, and go on until nothing is left to try."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from hasten.errors import HastenError
from hasten.measure.compare import LOOKS_S, Arm, compare
from hasten.measure.lab import Lab
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.finding import Finding
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.record import Record
from hasten.records.trial import Candidate, Offer, Outcome, Trial, trial_key
from hasten.records.verdict import Comparison
from hasten.stats.paired import CONFIDENCE
from hasten.tune.parity import prove_steps
from hasten.tune.propose import propose
from hasten.tune.prove import Prover

GRACE_S = 60.0
"""What warming up, such as compiling, may take beyond the time of the search."""
MOST_TRIES = 2
"""Of one change. What did not pay may pay on top of another: half the precision, and channels-last
becomes the faster layout. So the trials grow with the number of changes, and no faster."""
TRIED_AGAIN: tuple[Outcome, ...] = ("not_faster", "no_verdict", "not_tried", "fell_back")
"""What another plan may turn; a refuted change is refuted on any."""

Tell = Callable[[str], None]


class Search:
    """Holds the incumbent: the best plan so far, in a worker that stays warm."""

    def __init__(
        self,
        lab: Lab,
        prover: Prover,
        offers: Sequence[Offer],
        rungs: Mapping[str, Rung],
        *,
        noise_floor: float,
        deadline: float,
        diagnose: Callable[[Plan], Sequence[Finding]],
        note: Callable[[Record], None],
        known: Mapping[str, Trial],
    ) -> None:
        """``diagnose`` measures a plan and finds what costs most then. ``known`` are trials of an
        earlier search that was stopped, by their keys: they are not run again."""
        self._lab = lab
        self._prover = prover
        self._offers = offers
        self._rungs = rungs
        self._noise_floor = noise_floor
        self._deadline = deadline
        self._diagnose = diagnose
        self._note = note
        self._known = known
        self._arm: Arm | None = None
        self._tried: dict[str, list[Trial]] = {}
        # Many candidates give many chances to win by luck: each gets its share of the error.
        chances = MOST_TRIES * sum(len(offer.parts) for offer in offers)
        self._confidence = 1 - (1 - CONFIDENCE) / max(chances, 1)
        self.trials: list[Trial] = []
        self.plan = NAIVE

    @property
    def kept(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.outcome == "kept"]

    def best(self) -> float:
        """How many times faster than naive the incumbent is, as far as trials tell."""
        return math.prod(each.comparison.ratio for each in self.kept if each.comparison)

    def run(self, findings: Sequence[Finding], tell: Tell) -> None:
        """Begin with what was found of the naive training. Every trial is noted as it ends."""
        while True:
            candidate = self._next(findings)
            if candidate is None:
                break
            trial = self._known.get(trial_key(self.plan, candidate))
            if trial is None:
                if self._left_s() < LOOKS_S[0]:
                    self._give_up(findings)
                    break
                tell(self._words(candidate))
                trial = self._try(candidate)
            self._record(trial)
            if trial.outcome == "kept":
                self.plan = candidate.plan_on(self.plan)
                findings = self._look_again(findings, tell)
        self._lab.close_workers()
        self._arm = None

    def _next(self, findings: Sequence[Finding]) -> Candidate | None:
        candidates, not_tried = propose(findings, self._offers, self._noise_floor, self.plan)
        for trial in not_tried:
            if trial.candidate.key() not in self._tried:
                self._record(trial)
        return next((each for each in candidates if self._is_open(each)), None)

    def _is_open(self, candidate: Candidate) -> bool:
        """Never tried; or tried, on another plan than now, and not settled for good."""
        measured = [
            each for each in self._tried.get(candidate.key(), []) if each.outcome != "below_noise"
        ]
        if not measured:
            return True
        last = measured[-1]
        return len(measured) < MOST_TRIES and last.outcome in TRIED_AGAIN and last.on != self.plan

    def _give_up(self, findings: Sequence[Finding]) -> None:
        while (candidate := self._next(findings)) is not None:
            why = "the time was spent"
            trial = Trial(candidate=candidate, on=self.plan, outcome="out_of_time", why=why)
            self._record(trial)

    def _record(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._tried.setdefault(trial.candidate.key(), []).append(trial)
        if trial.key() not in self._known:
            self._note(trial)

    def _look_again(self, findings: Sequence[Finding], tell: Tell) -> Sequence[Finding]:
        tell(f"measuring where the time goes now ({self.best():.2f}x so far)")
        if self._arm is not None:
            self._arm.worker.pause()
        try:
            return self._diagnose(self.plan)
        except HastenError:
            return findings  # it was just timed, so that it is the profiler that does not bear it

    def _try(self, candidate: Candidate) -> Trial:
        plan = candidate.plan_on(self.plan)
        try:
            if self._arm is None:
                (self._arm,) = self._lab.arms(self.plan, anew=False)
            (arm,) = self._lab.arms(plan, limit_s=self._warm_limit_s(), anew=False)
            trial = self._judge(candidate, plan, self._arm, arm)
        except WorkerFailure as failure:
            self._lab.close_workers()  # the incumbent may be the one that failed: begin it anew
            self._arm = None
            return self._failed(candidate, failure.failed)
        if trial.outcome == "kept":
            self._arm.worker.close()
            self._arm = arm
        else:
            arm.worker.close()
        return trial

    def _judge(self, candidate: Candidate, plan: Plan, incumbent: Arm, arm: Arm) -> Trial:
        if (fallback := arm.fell_back()) is not None:
            return self._lost(candidate, arm, fallback)
        comparison = compare(
            incumbent,
            arm,
            seed=len(self.trials),
            only_faster=True,
            confidence=self._confidence,
            margin=self._noise_floor - 1,
            limit_s=min(max(self._left_s(), LOOKS_S[0]), LOOKS_S[-1]),
        )
        arm.read()
        if (fallback := arm.fell_back()) is not None:  # what was timed was then another plan
            return self._lost(candidate, arm, fallback)
        if comparison.decision != "faster":
            outcome, why = _not_faster(comparison)
            return Trial(
                candidate=candidate,
                on=self.plan,
                outcome=outcome,
                why=why,
                comparison=comparison,
                applied=arm.applied,
            )
        arm.worker.pause()
        moves_data = any(each.changes_data for each in self._offers if each.technique in plan.parts)
        claim = prove_steps(self._prover, plan, self._rungs, check_data=moves_data)
        proven = claim.verdict == "proven"
        why = claim.why()
        if proven and candidate.rung is Rung.PARITY:
            why = "whether it trains as well is judged in the end"
        return Trial(
            candidate=candidate,
            on=self.plan,
            outcome="kept" if proven else claim.verdict,  # type: ignore[arg-type]
            why=why,
            comparison=comparison,
            numerics=claim,
            applied=arm.applied,
        )

    def _lost(self, candidate: Candidate, arm: Arm, fallback: Applied) -> Trial:
        outcome: Outcome = "not_tried" if fallback.outcome == "skipped" else "fell_back"
        if fallback.ran_out_of_memory:
            outcome = "out_of_memory"
        return Trial(
            candidate=candidate,
            on=self.plan,
            outcome=outcome,
            why=str(fallback),
            applied=arm.applied,
        )

    def _failed(self, candidate: Candidate, failed: Failed) -> Trial:
        outcome: Outcome = "out_of_memory" if failed.kind == "out_of_memory" else "failed"
        return Trial(
            candidate=candidate,
            on=self.plan,
            outcome=outcome,
            why=failed.what,
            detail=failed.detail,
        )

    def _warm_limit_s(self) -> float:
        return self._left_s() + GRACE_S

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)

    def _words(self, candidate: Candidate) -> str:
        so_far = f"{self.best():.2f}x so far, " if self.kept else ""
        return (
            f"trying {candidate.technique} against {candidate.finding} "
            f"({so_far}{self._left_s() / 60:.1f} min left)"
        )


def _not_faster(comparison: Comparison) -> tuple[Outcome, str]:
    if comparison.high < 1 + comparison.margin:
        return "not_faster", f"at most {comparison.high:.3f}x"
    return "no_verdict", f"between {comparison.low:.3f}x and {comparison.high:.3f}x: too noisy"
