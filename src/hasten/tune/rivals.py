"""The best plan so far and one that may be better, timed against each other.

Their processes stay warm, and the winner's is there for the next contest. A device may not have
room for both, since trainings are often made as large as it allows: then whole processes take
turns. It may have room for both and not for a proof beside them: then they are ended before it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from hasten.measure.compare import Arm, compare
from hasten.measure.lab import Lab
from hasten.measure.messages import Failed
from hasten.measure.turns import compare_in_turns
from hasten.measure.worker import WorkerFailure, once_more
from hasten.records.applied import Applied, fallback_in
from hasten.records.plan import Plan
from hasten.records.verdict import Comparison

PROOF_TAKES = 3
"""Times what a plan takes at its peak: steps are traced in fp64 too, beside copies of gradients."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Of one contest."""

    seed: int
    confidence: float
    margin: float
    limit_s: float
    warm_limit_s: float


class NotReadyError(WorkerFailure):
    """Of a plan that has not come to its first timed step."""


class IncumbentFailure(WorkerFailure):
    """Of the best plan so far, which says nothing of the one that is tried."""


@dataclass(frozen=True)
class Meeting:
    """What came of a contest for the rival."""

    comparison: Comparison | None
    """None where it fell back before it was timed."""
    applied: tuple[Applied, ...]
    state: dict[str, str] | None = None
    """Digests of what the rival began with, where one process of it met the incumbent."""

    def fell_back(self) -> Applied | None:
        return fallback_in(self.applied)

    def ran_out_of_memory(self) -> bool:
        lost = self.fell_back()
        return lost is not None and lost.ran_out_of_memory


@dataclass(frozen=True)
class Contender:
    """A plan in a process of its own."""

    plan: Plan
    arm: Arm


class Rivals:
    def __init__(self, lab: Lab, device_bytes: int | None) -> None:
        """``device_bytes`` that the device has for all processes; None where it is the host."""
        self._lab = lab
        self._device_bytes = device_bytes
        self._incumbent: Contender | None = None
        self._rival: Contender | None = None
        self._take_turns = False

    def meet(self, incumbent: Plan, rival: Plan, terms: Terms) -> Meeting:
        """How many times faster the rival is; raises WorkerFailure. One that runs out of memory
        beside the other is met alone before that is held against it."""
        return once_more(partial(self._meet, incumbent, rival, terms), of=IncumbentFailure)

    def _meet(self, incumbent: Plan, rival: Plan, terms: Terms) -> Meeting:
        if not self._take_turns:
            met = self._meet_beside(incumbent, rival, terms)
            if met is not None:
                return met
        met = self._meet_in_turns(incumbent, rival, terms)
        self._take_turns = self._take_turns or met.fell_back() is None
        return met

    def part(self, *, won: bool) -> None:
        """The better one's process stays."""
        loser = self._incumbent if won else self._rival
        if loser is not None:
            loser.arm.worker.close()
        self._incumbent, self._rival = self._rival if won else self._incumbent, None

    def make_room(self) -> None:
        """For a process beside them that computes, and needs memory as well."""
        arms = self._arms()
        try:
            crowded = self._are_a_crowd(arms)
        except WorkerFailure:  # one has died: the next contest begins it anew
            crowded = True
        if crowded:
            self.end()
            return
        for arm in arms:
            arm.worker.pause()

    def end(self) -> None:
        for arm in self._arms():
            arm.worker.close()
        self._incumbent = self._rival = None

    def _arms(self) -> list[Arm]:
        return [each.arm for each in (self._incumbent, self._rival) if each is not None]

    def _are_a_crowd(self, arms: list[Arm]) -> bool:
        if self._device_bytes is None or not arms:
            return False
        peaks = [each.read().device_reserved_bytes or 0 for each in arms]
        return sum(peaks) + PROOF_TAKES * max(peaks) > self._device_bytes

    def _meet_beside(self, incumbent: Plan, rival: Plan, terms: Terms) -> Meeting | None:
        """None where there was not enough memory."""
        try:
            met = self._side_by_side(incumbent, rival, terms)
        except WorkerFailure as failure:
            is_incumbents = self._incumbent_has_failed()
            self.end()  # either may be the one that failed
            if failure.failed.kind == "out_of_memory":
                return None
            if is_incumbents:
                raise IncumbentFailure(failure.failed) from failure
            raise
        if met.ran_out_of_memory():
            self.end()
            return None
        return met

    def _side_by_side(self, incumbent: Plan, rival: Plan, terms: Terms) -> Meeting:
        mine = self._beginning_with(incumbent)
        its = self._ready(rival, terms, digest=True)
        self._rival = Contender(rival, its)
        if its.fell_back() is not None:
            return Meeting(None, its.applied)
        comparison = compare(
            mine,
            its,
            seed=terms.seed,
            only_faster=True,
            confidence=terms.confidence,
            margin=terms.margin,
            limit_s=terms.limit_s,
        )
        for arm in (mine, its):
            arm.read()
        _refuse_other_plan(mine.applied)
        return Meeting(comparison, its.applied, its.state)

    def _beginning_with(self, incumbent: Plan) -> Arm:
        """The process that stayed, unless it is of another plan: what an earlier search has kept is
        taken over without a contest."""
        if self._incumbent is not None and self._incumbent.plan != incumbent:
            self.end()
        if self._incumbent is None:
            try:
                (arm,) = self._lab.arms(incumbent, anew=False)  # however long: it has run before
            except WorkerFailure as failure:
                raise IncumbentFailure(failure.failed) from failure
            self._incumbent = Contender(incumbent, arm)
            _refuse_other_plan(arm.applied)
        return self._incumbent.arm

    def _incumbent_has_failed(self) -> bool:
        """It may have ended beside the other, too."""
        if self._incumbent is None:
            return False
        arm = self._incumbent.arm
        try:
            arm.read()
        except WorkerFailure:
            return True
        return arm.worker.has_failed

    def _ready(self, plan: Plan, terms: Terms, *, digest: bool = False) -> Arm:
        try:
            (arm,) = self._lab.arms(plan, limit_s=terms.warm_limit_s, anew=False, digest=digest)
        except WorkerFailure as failure:
            raise NotReadyError(failure.failed) from failure
        return arm

    def _meet_in_turns(self, incumbent: Plan, rival: Plan, terms: Terms) -> Meeting:
        had_turns: list[Plan] = []

        def begin(plan: Plan) -> Arm:
            had_turns.append(plan)
            if plan == rival:
                return self._ready(plan, terms)
            (arm,) = self._lab.arms(plan, anew=False)
            return arm

        try:
            contest = compare_in_turns(
                begin,
                incumbent,
                rival,
                seed=terms.seed,
                only_faster=True,
                confidence=terms.confidence,
                margin=terms.margin,
                limit_s=terms.warm_limit_s,  # a turn is mostly warming up
            )
        except WorkerFailure as failure:
            if had_turns[-1] == incumbent:
                raise IncumbentFailure(failure.failed) from failure
            raise
        _refuse_other_plan(contest.a_applied)
        return Meeting(contest.comparison, contest.b_applied)


def _refuse_other_plan(applied: tuple[Applied, ...]) -> None:
    """An incumbent that fell back, begun anew or late, is another, slower plan: to be faster than
    that is nothing."""
    if (lost := fallback_in(applied)) is not None:
        what = f"It did not run again as it had: {lost}"
        kind: Literal["out_of_memory", "error"]
        kind = "out_of_memory" if lost.ran_out_of_memory else "error"
        raise IncumbentFailure(Failed(kind=kind, what=what))
