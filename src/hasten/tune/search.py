"""The ratchet: try the answers to what costs most, keep what is faster beyond doubt and holds its
rung, look again at what costs most now, and go on until nothing is left to try."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.measure.compare import LOOKS_S, SMALL, is_hopeless
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure, once_more
from hasten.records.applied import Applied
from hasten.records.finding import MEMORY_PEAK, Finding
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.record import Record
from hasten.records.trial import Candidate, Offer, Outcome, Trial, trial_key
from hasten.records.tuning import FASTER, Aim
from hasten.records.verdict import Comparison, Verdict
from hasten.report.text import interval, is_too_wide, size
from hasten.stats.paired import CONFIDENCE
from hasten.tune.confirm import SMALLER
from hasten.tune.parity import prove_steps
from hasten.tune.propose import lighter, propose
from hasten.tune.prove import Prover
from hasten.tune.rivals import IncumbentFailure, NotReadyError, Rivals, Terms

GRACE_S = 60.0
"""What warming up may take beyond the time of the search."""
SLOW_SHARE = 0.5
"""Of the time that is left, for what is slow to prepare, such as compiling: its proof prepares it
once more."""
MOST_TRIES = 2
"""Of one change. What did not pay may pay on top of another: half the precision, and channels-last
becomes the faster layout. So the trials grow with the number of changes, and no faster."""
TRIED_AGAIN: tuple[Outcome, ...] = ("not_faster", "no_verdict", "not_tried", "fell_back")
"""What another plan may turn; a refuted change is refuted on any."""
OF_AN_AIM: tuple[Outcome, ...] = ("not_smaller", "not_faster", "no_verdict", "too_large")
"""What says nothing where the other is asked for, what is smaller or what is faster."""

LEAST_OF_PRECISION = SMALL
"""Another precision has to gain so much, with what it brings: it gives other numbers, and takes the
trainings of many seeds to show that they are as good."""

PROVED: dict[Verdict, Outcome] = {
    "proven": "kept",
    "not_proven": "not_proven",
    "refuted": "refuted",
}
MEMORY = Finding(
    code=MEMORY_PEAK,
    title="the peak of a step's memory is to be lower",
    advice="Recompute activations, compute a batch in pieces, or keep them in fewer bits.",
    place=None,
    cost_s=0.0,
    bound=1.0,
)

Tell = Callable[[str], None]


class Search:
    """Holds the incumbent: the best plan so far."""

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
        aim: Aim = FASTER,
        device_bytes: int | None = None,
        look_s: float = 0.0,
    ) -> None:
        """``diagnose`` measures a plan and finds what costs most then. ``known`` are trials of an
        earlier search that was stopped, by their keys: they are not run again. ``device_bytes``
        that a device of its own has. ``look_s`` is what measuring the naive training took."""
        self._lab = lab
        self._rivals = Rivals(lab, device_bytes)
        self._prover = prover
        self._offers = offers
        self._rungs = rungs
        self._noise_floor = noise_floor
        self._deadline = deadline
        self._diagnose = diagnose
        self._note = note
        self._known = known
        self._aim = aim
        self._slow = {each.technique for each in offers if each.slow_to_prepare}
        self._tried: dict[str, list[Trial]] = {}
        # Many candidates give many chances to win by luck: each gets its share of the error.
        tried = [each for each in offers if each.rung is not Rung.CHANGES_TRAINING]
        # What brings others may be tried without them too.
        chances = MOST_TRIES * sum(len(each.parts) * (2 if each.brings else 1) for each in tried)
        self._confidence = 1 - (1 - CONFIDENCE) / max(chances, 1)
        self._look_s = look_s
        """What the last look at where the time goes took."""
        self._waiting = 1
        """Candidates that are open, the one that is tried among them."""
        self._smaller = False
        """Whether that is asked for now, and not what is faster."""
        self._met_s: list[float] = []
        """What contests took with candidates that are quick to prepare."""
        self.trials: list[Trial] = []
        self.plan = NAIVE
        self.peak_bytes: int | None = None
        """Of the incumbent, where memory is minded."""

    @property
    def kept(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.outcome == "kept"]

    def best(self) -> float:
        """How many times faster than naive the incumbent is, as far as trials tell."""
        return math.prod(each.comparison.ratio for each in self.kept if each.comparison)

    def so_far(self) -> str:
        """The same in words, with the peak of memory where that is minded."""
        found = f"{self.best():.2f}x" if self.kept else "none yet"
        return found if self.peak_bytes is None else f"{found}, a peak of {size(self.peak_bytes)}"

    def run(self, findings: Sequence[Finding], tell: Tell) -> None:
        """Begin with what was found of the naive training. Every trial is noted as it ends."""
        if self._aim.minds_memory():
            tell("measuring the peak of a step's memory")
            try:
                self.peak_bytes = once_more(lambda: self._lab.peak(self.plan))
            except WorkerFailure as failure:
                raise failure.as_error() from failure
        if self._aim.goal == "memory" or self._is_over(self.peak_bytes):
            self._smaller = True
            self._ratchet([MEMORY], tell)
        if self._aim.goal == "speed":
            findings = self._look_again(findings, tell) if self.kept else findings
            self._smaller = False
            self._ratchet(findings, tell)
        self._rivals.end()

    def _ratchet(self, findings: Sequence[Finding], tell: Tell) -> None:
        """Until nothing is left to try. Of what is smaller, where only a limit has to be met, no
        more is kept than it takes."""
        while True:
            candidate = None if self._is_small_enough() else self._next(findings)
            if candidate is None:
                return
            trial = self._result_of(candidate, tell)
            if trial is not None and (less := self._lighter(trial)) is not None:
                self._list(trial)
                trial = self._result_of(less, tell) or self._out_of_time(less)
            if trial is None:
                self._give_up(findings)
                return
            self._record(trial)
            if trial.outcome == "kept":
                self.plan = trial.candidate.plan_on(self.plan)
                self.peak_bytes = trial.peak_bytes or self.peak_bytes
                if not self._smaller:
                    findings = self._look_again(findings, tell)

    def _is_small_enough(self) -> bool:
        """Where that is asked for now, to meet a limit."""
        has_limit_alone = self._smaller and self._aim.goal == "speed"
        return has_limit_alone and not self._is_over(self.peak_bytes)

    def _result_of(self, candidate: Candidate, tell: Tell) -> Trial | None:
        """Known from an earlier search, or tried now; None where there is no time for it."""
        trial = self._known.get(trial_key(self.plan, candidate))
        if trial is not None and trial.tells():
            return trial
        if self._left_s() < self._least_s():
            return None
        tell(f"trying {candidate.words()} against {candidate.finding}")
        return self._try(candidate, tell)

    def _is_of_other_aim(self, trial: Trial) -> bool:
        was_for_smaller = trial.candidate.is_for_memory()
        return was_for_smaller != self._smaller and trial.outcome in OF_AN_AIM

    def _least_s(self) -> float:
        """No trial takes less, by what contests took here."""
        return max(min(self._met_s, default=0.0), LOOKS_S[0])

    def is_too_large(self) -> bool:
        """Whether nothing that was tried fits into the memory that is allowed."""
        return self._is_over(self.peak_bytes)

    def _is_over(self, peak_bytes: int | None) -> bool:
        allowed = self._aim.memory_bytes
        return allowed is not None and peak_bytes is not None and peak_bytes > allowed

    def _next(self, findings: Sequence[Finding]) -> Candidate | None:
        # A peak that is high costs no time: what lowers it is tried where that is asked for.
        costly = [each for each in findings if self._smaller or each.code != MEMORY.code]
        floor = 0.0 if self._smaller else self._noise_floor
        candidates, not_tried = propose(costly, self._offers, floor, self.plan)
        for trial in not_tried:
            if trial.candidate.key() not in self._tried:
                self._record(trial)
        left = sorted(filter(self._is_open, candidates), key=self._was_tried)
        self._waiting = len(left)
        chosen = left[0] if left else None
        return chosen and lighter(chosen, self._wrong(), self._offers, self.plan)

    def _wrong(self) -> set[str]:
        """What was tried by itself and is another training: no other brings it along."""
        return {
            each.candidate.technique
            for each in self.trials
            if each.outcome in ("refuted", "not_proven") and not each.candidate.along
        }

    def _was_tried(self, candidate: Candidate) -> bool:
        """It has had its chance, and comes behind those that had none."""
        return bool(self._measured(candidate))

    def _measured(self, candidate: Candidate) -> list[Trial]:
        """Without rows of what was not even proposed."""
        return [
            each
            for each in self._tried.get(candidate.key(), [])
            if each.outcome != "below_noise"
            and (each.outcome != "not_tried" or each.applied)
            and not self._is_of_other_aim(each)
        ]

    def _is_open(self, candidate: Candidate) -> bool:
        """Never tried; or tried, on another plan than now, and not settled for good."""
        measured = self._measured(candidate)
        if not measured:
            return True
        last = measured[-1]
        return len(measured) < MOST_TRIES and last.outcome in TRIED_AGAIN and last.on != self.plan

    def _give_up(self, findings: Sequence[Finding]) -> None:
        while (candidate := self._next(findings)) is not None:
            self._record(self._out_of_time(candidate))

    def _out_of_time(self, candidate: Candidate) -> Trial:
        why = "the time was spent"
        return Trial(candidate=candidate, on=self.plan, outcome="out_of_time", why=why)

    def _lighter(self, trial: Trial) -> Candidate | None:
        """The same change without what it brought and may have been the trouble; None where that
        was not."""
        candidate = trial.candidate
        if trial.outcome in ("out_of_memory", "too_large"):
            trouble = {each.technique for each in self._offers if each.changes_data}
        elif trial.outcome in ("not_tried", "fell_back"):
            trouble = {each.technique for each in trial.applied if each.outcome != "done"}
        elif trial.outcome in ("refuted", "not_proven", "not_faster"):
            trouble = set(candidate.along)
        else:
            return None
        less = lighter(candidate, trouble, self._offers, self.plan)
        return None if less.along == candidate.along else less

    def _record(self, trial: Trial) -> None:
        self._list(trial)
        self._tried.setdefault(trial.candidate.key(), []).append(trial)

    def _list(self, trial: Trial) -> None:
        self.trials.append(trial)
        known = self._known.get(trial.key())
        if known is None or (trial is not known and trial.tells()):
            self._note(trial)

    def _look_again(self, findings: Sequence[Finding], tell: Tell) -> Sequence[Finding]:
        """Unless, by what the last look took, there is no time to try what this one would find."""
        began = time.monotonic()
        if self._left_s() < self._look_s + self._least_s():
            return findings
        tell("measuring where the time goes now")
        self._rivals.make_room()
        try:
            return self._diagnose(self.plan)
        except HastenError as error:  # it was just timed: the profiler does not bear it
            tell(f"that could not be measured, and what was found before is gone by: {error.what}")
            return findings
        finally:
            self._look_s = time.monotonic() - began

    def _try(self, candidate: Candidate, tell: Tell) -> Trial:
        plan = candidate.plan_on(self.plan)
        try:
            trial = self._judge(candidate, plan, tell)
        except WorkerFailure as failure:
            self._rivals.end()  # the incumbent may be the one that failed: begin it anew
            return self._failed(candidate, failure)
        self._rivals.part(won=trial.outcome == "kept")
        return trial

    def _judge(self, candidate: Candidate, plan: Plan, tell: Tell) -> Trial:
        began = time.monotonic()
        met = self._rivals.meet(self.plan, plan, self._terms(candidate))
        if met.comparison is not None and not self._is_slow(candidate):
            self._met_s.append(time.monotonic() - began)
        if (fallback := met.fell_back()) is not None:  # what was timed was then another plan
            return self._lost(candidate, met.applied, fallback)
        comparison = met.comparison
        assert comparison is not None  # it did not fall back
        trial = Trial(
            candidate=candidate,
            on=self.plan,
            outcome="kept",
            why="",
            comparison=comparison,
            applied=met.applied,
        )
        if not self._smaller and comparison.decision != "faster":
            outcome, why = _not_faster(comparison)
            return replace(trial, outcome=outcome, why=why)
        is_slight = candidate.rung is Rung.PARITY and comparison.ratio < LEAST_OF_PRECISION
        if not self._smaller and is_slight:
            why = f"another precision has to gain {100 * (LEAST_OF_PRECISION - 1):.0f} %"
            return replace(trial, outcome="not_faster", why=why)
        self._rivals.make_room()
        if self._aim.minds_memory():
            peak = self._lab.peak(plan)
            trial = replace(trial, peak_bytes=peak)
            outcome, why = self._by_its_peak(peak)
            if outcome != "kept":
                return replace(trial, outcome=outcome, why=why)
        tell(f"comparing the steps of {candidate.words()} with naive ones")
        return self._prove(trial, plan, met.state)

    def _terms(self, candidate: Candidate) -> Terms:
        """One that stays undecided has its share of the time that is left, so that others have a
        turn."""
        share_s = self._left_s() / max(self._waiting, 1)
        return Terms(
            seed=len(self.trials),
            confidence=self._confidence,
            margin=self._noise_floor - 1,
            limit_s=LOOKS_S[0] if self._smaller else min(max(share_s, LOOKS_S[0]), LOOKS_S[-1]),
            warm_limit_s=self._warm_limit_s(candidate),
        )

    def _by_its_peak(self, peak: int) -> tuple[Outcome, str]:
        before = self.peak_bytes or peak
        if self._smaller and peak > SMALLER * before:
            return "not_smaller", f"a peak of {size(peak)}, and {size(before)} without it"
        if not self._smaller and self._is_over(peak):
            allowed = size(self._aim.memory_bytes or 0)
            return "too_large", f"a peak of {size(peak)}, where {allowed} are allowed"
        return "kept", ""

    def _prove(self, trial: Trial, plan: Plan, state: dict[str, str] | None) -> Trial:
        claim = prove_steps(self._prover, plan, self._rungs, glance=False, state=state)
        why = claim.why()
        if claim.verdict == "proven" and trial.candidate.rung is Rung.PARITY:
            is_faster = trial.comparison is not None and trial.comparison.decision == "faster"
            better = "faster" if is_faster else "smaller"
            why = f"{better}; whether it trains as well is proven at the end"
        return replace(trial, outcome=PROVED[claim.verdict], why=why, numerics=claim)

    def _lost(self, candidate: Candidate, applied: tuple[Applied, ...], fallback: Applied) -> Trial:
        outcome: Outcome = "not_tried" if fallback.outcome == "skipped" else "fell_back"
        if fallback.ran_out_of_memory:
            outcome = "out_of_memory"
        return Trial(
            candidate=candidate,
            on=self.plan,
            outcome=outcome,
            why=str(fallback),
            applied=applied,
        )

    def _failed(self, candidate: Candidate, failure: WorkerFailure) -> Trial:
        failed = failure.failed
        is_late = failed.kind == "hung" and isinstance(failure, NotReadyError)
        outcome: Outcome = "out_of_memory" if failed.kind == "out_of_memory" else "failed"
        why = failed.what
        if isinstance(failure, IncumbentFailure):
            outcome, why = "no_verdict", f"what it was compared with failed: {why}"
        if is_late and self._is_slow(candidate):
            outcome = "out_of_time"
            why = "it was not ready in its half of the time that was left; give more --minutes"
        return Trial(
            candidate=candidate,
            on=self.plan,
            outcome=outcome,
            why=why,
            detail=failed.detail,
        )

    def _is_slow(self, candidate: Candidate) -> bool:
        """With all that it stands on: a change of a compiled plan may have it compiled anew."""
        return not self._slow.isdisjoint(candidate.plan_on(self.plan).parts)

    def _warm_limit_s(self, candidate: Candidate) -> float:
        left_s = self._left_s()
        return SLOW_SHARE * left_s if self._is_slow(candidate) else left_s + GRACE_S

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)


def _not_faster(comparison: Comparison) -> tuple[Outcome, str]:
    if is_hopeless(comparison.ratio, comparison.high, comparison.margin):
        return "not_faster", f"{comparison.high:.3f}x at best"
    if is_too_wide(comparison.low, comparison.high):
        return "no_verdict", "too noisy to tell"
    floor = f"{100 * comparison.margin:.1f} %"
    found = interval(comparison.low, comparison.high, 3)
    return "no_verdict", f"{found}: not clear of the noise, {floor}"
