"""Greedy search: keep a change when it is faster beyond doubt and its rung holds."""

import time
from collections.abc import Callable, Sequence

from hasten.measure.compare import LOOKS_S, Arm, compare
from hasten.measure.lab import Lab
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.trial import Candidate, Outcome, Trial
from hasten.records.verdict import Comparison
from hasten.stats.paired import CONFIDENCE
from hasten.tune.prove import Prover

GRACE_S = 60.0
"""What warming up, such as compiling, may take beyond the time of the search."""


class Search:
    """Holds the incumbent: the best plan so far, in a worker that stays warm."""

    def __init__(
        self, lab: Lab, prover: Prover, note: Callable[[Trial], None], deadline: float
    ) -> None:
        self._lab = lab
        self._prover = prover
        self._note = note
        self._deadline = deadline
        self._arm: Arm | None = None
        self.trials: list[Trial] = []
        self.plan = NAIVE
        self.rung = Rung.BITWISE
        self.changes_data = False

    def record(self, *trials: Trial) -> None:
        for trial in trials:
            self.trials.append(trial)
            self._note(trial)

    def run(self, candidates: Sequence[Candidate], tell: Callable[[str], None]) -> None:
        """Try each candidate on top of the incumbent; every trial is noted as it ends."""
        # Many candidates give many chances to win by luck: each gets its share of the error.
        confidence = 1 - (1 - CONFIDENCE) / max(len(candidates), 1)
        for number, candidate in enumerate(candidates, 1):
            left = self._deadline - time.monotonic()
            if left < LOOKS_S[0]:
                why = "the time was spent"
                self.record(Trial(candidate=candidate, outcome="out_of_time", why=why))
                continue
            tell(f"trying {candidate.technique} ({number} of {len(candidates)})")
            self.record(self._try(candidate, confidence, number, min(left, LOOKS_S[-1])))
        self._lab.close_workers()

    def _try(self, candidate: Candidate, confidence: float, number: int, limit_s: float) -> Trial:
        plan = candidate.plan_on(self.plan)
        try:
            if self._arm is None:
                (self._arm,) = self._lab.arms(self.plan, anew=False)
            (arm,) = self._lab.arms(plan, limit_s=self._warm_limit_s(), anew=False)
            trial = self._judge(candidate, plan, arm, confidence, number, limit_s)
        except WorkerFailure as failure:
            self._lab.close_workers()  # the incumbent may be the one that failed: begin it anew
            self._arm = None
            return _failed(candidate, failure.failed)
        if trial.outcome == "kept":
            self._arm.worker.close()
            self._arm, self.plan = arm, plan
            self.rung = Rung.deepest([self.rung, candidate.rung])
            self.changes_data |= candidate.changes_data
        else:
            arm.worker.close()
        return trial

    def _warm_limit_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic()) + GRACE_S

    def _judge(
        self,
        candidate: Candidate,
        plan: Plan,
        arm: Arm,
        confidence: float,
        number: int,
        limit_s: float,
    ) -> Trial:
        assert self._arm is not None  # _try has started it
        if (fallback := arm.fell_back()) is not None:
            return _lost(candidate, arm, fallback)
        comparison = compare(
            self._arm,
            arm,
            seed=number,
            only_faster=True,
            confidence=confidence,
            limit_s=limit_s,
        )
        arm.read()
        if (fallback := arm.fell_back()) is not None:  # what was timed was then another plan
            return _lost(candidate, arm, fallback)
        if comparison.decision != "faster":
            outcome, why = _not_faster(comparison)
            return Trial(
                candidate=candidate,
                outcome=outcome,
                why=why,
                comparison=comparison,
                applied=arm.applied,
            )
        arm.worker.pause()
        rung = Rung.deepest([self.rung, candidate.rung])
        claim = self._prover.prove(
            plan, rung, check_data=self.changes_data or candidate.changes_data
        )
        proven = claim.verdict == "proven"
        return Trial(
            candidate=candidate,
            outcome="kept" if proven else claim.verdict,  # type: ignore[arg-type]
            why=claim.why(),
            comparison=comparison,
            numerics=claim,
            applied=arm.applied,
        )


def _lost(candidate: Candidate, arm: Arm, fallback: Applied) -> Trial:
    outcome: Outcome = "not_tried" if fallback.outcome == "skipped" else "fell_back"
    if fallback.ran_out_of_memory:
        outcome = "out_of_memory"
    return Trial(candidate=candidate, outcome=outcome, why=str(fallback), applied=arm.applied)


def _failed(candidate: Candidate, failed: Failed) -> Trial:
    outcome: Outcome = "out_of_memory" if failed.kind == "out_of_memory" else "failed"
    return Trial(candidate=candidate, outcome=outcome, why=failed.what, detail=failed.detail)


def _not_faster(comparison: Comparison) -> tuple[Outcome, str]:
    if comparison.high < 1 + comparison.margin:
        return "not_faster", f"at most {comparison.high:.3f}x"
    return "no_verdict", f"between {comparison.low:.3f}x and {comparison.high:.3f}x: too noisy"
