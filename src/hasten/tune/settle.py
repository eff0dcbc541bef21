"""What the search has found becomes a plan that is held to its claims: the training stays the same,
each part pays in place, and it is faster in processes that are started anew."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hasten.measure.lab import Lab
from hasten.records.curves import Curves
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.recipe import Confirmation
from hasten.records.tuning import Aim, PartWeighed, PlanJudged, Worth
from hasten.records.verdict import MemoryClaim, NumericsClaim, SpeedClaim
from hasten.tune.ablate import ablate, idle
from hasten.tune.confirm import claim_memory, claim_speed, confirm
from hasten.tune.course import Course
from hasten.tune.curves import CurveTrainer
from hasten.tune.journal import Journal, Learnt, Lesson
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover
from hasten.tune.spending import Stopwatch


@dataclass(frozen=True)
class Settled:
    plan: Plan
    worth: tuple[Worth, ...]
    numerics: NumericsClaim
    curves: Curves | None
    """Where the proof trained nothing."""
    confirmation: Confirmation
    speed: SpeedClaim | None
    memory: MemoryClaim | None
    dropped: dict[str, str]
    """Parts of the search's plan that are not in this one, each with the reason."""
    cut_short: tuple[str, ...] = ()
    """Those of them that more time might have proven."""


class Settler:
    def __init__(
        self,
        lab: Lab,
        prover: Prover,
        rungs: Mapping[str, Rung],
        *,
        noise_floor: float,
        parity_s: float,
        aim: Aim,
        watch: Stopwatch,
        course: Course,
        journal: Journal,
        learnt: Learnt,
    ) -> None:
        """``prover`` is a fresh one, of another seed than the search's. ``parity_s`` is what may
        be spent on training in another precision."""
        self._lab, self._prover, self._rungs = lab, prover, rungs
        self._floor, self._parity_s, self._aim = noise_floor, parity_s, aim
        self._watch, self._course = watch, course
        self._journal, self._learnt = journal, learnt
        self._cut_short: list[str] = []

    def settle(
        self,
        plan: Plan,
        worth: tuple[Worth, ...] | None = None,
        curves: Curves | None = None,
    ) -> Settled:
        """``worth`` of the parts and ``curves`` of the same plan, where they are known already."""
        dropped: dict[str, str] = {}
        self._cut_short.clear()
        if worth is None:
            plan, worth, claim = self._keep_what_holds(plan, dropped)
        else:
            self._foresee(plan)
            claim = self._prove(plan, dropped)
        self._prover.forget()
        self._course.enter("confirming")
        with self._watch.over("confirmation_s"):
            confirmation = confirm(self._lab, NAIVE, plan, self._floor, self._course.tell)
            memory = claim_memory(self._lab, plan, self._aim)
        if claim.parity is None and curves is None:
            curves, claim = self._train_curves(plan, claim)
        return Settled(
            plan=plan,
            worth=worth,
            numerics=claim,
            curves=curves,
            confirmation=confirmation,
            speed=claim_speed(confirmation, self._floor),
            memory=memory,
            dropped=dropped,
            cut_short=tuple(self._cut_short),
        )

    def _keep_what_holds(
        self, plan: Plan, dropped: dict[str, str]
    ) -> tuple[Plan, tuple[Worth, ...], NumericsClaim]:
        """The parts that leave the training the same, and of these the ones that pay."""
        plan, claim = self._hold(plan, dropped)
        while claim.verdict == "proven":
            paying, worth = self._prune(plan, dropped)
            if paying == plan:
                return plan, worth, claim
            plan, claim = self._hold(paying, dropped)
            if plan == paying:
                return plan, worth, claim
        return plan, (), claim

    def _hold(self, plan: Plan, dropped: dict[str, str]) -> tuple[Plan, NumericsClaim]:
        """All of the plan that leaves the training the same, with the claim of it: what speaks
        against the whole is laid to single parts until the rest holds or one alone is left."""
        while True:
            self._foresee(plan)
            claim = self._prove(plan, dropped)
            blamed = self._blamed(plan, claim)
            if claim.verdict == "proven" or len(blamed) == len(plan.parts):
                return plan, claim
            dropped |= dict.fromkeys(blamed, claim.why())
            if claim.short_of_time():
                self._cut_short += blamed
            plan = plan.without(*blamed)

    def _blamed(self, plan: Plan, claim: NumericsClaim) -> list[str]:
        """Another precision for what training tells; for what steps tell, which are traced without
        it, the part that came last to the others."""
        parity = [each for each in plan.parts if self._rungs[each] is Rung.PARITY]
        others = [each for each in plan.parts if each not in parity]
        trained = any(each.name == "parity" for each in claim.checks)
        return parity if trained or not others else others[-1:]

    def _foresee(self, plan: Plan) -> None:
        trains = any(self._rungs[each] is Rung.PARITY for each in plan.parts)
        self._course.foresee(len(plan.parts), self._parity_s if trains else 0.0)

    def _prune(self, plan: Plan, dropped: dict[str, str]) -> tuple[Plan, tuple[Worth, ...]]:
        """The parts that do not make the plan slower; those that were kept for memory may."""
        self._course.enter("settling")
        with self._watch.over("ablation_s"):
            worth = self._weigh(plan)
            while not self._aim.minds_memory() and (useless := idle(worth, self._floor)):
                dropped[useless[0]] = "the plan is faster without it, once the others are there"
                plan = plan.without(useless[0])
                worth = self._weigh(plan)
        return plan, worth

    def _weigh(self, plan: Plan) -> tuple[Worth, ...]:
        def note(worth: Worth) -> None:
            self._note(PartWeighed(plan=plan, worth=worth))

        return ablate(self._lab, plan, self._course.tell, self._learnt.worth_of(plan), note)

    def _prove(self, plan: Plan, dropped: Collection[str]) -> NumericsClaim:
        if (known := self._learnt.claim_of(plan)) is not None:
            return known
        self._course.enter("proving")
        without = f", without {', '.join(dropped)}" if dropped else ""
        self._course.tell(f"proving that the training stays the same, from another seed{without}")
        with self._watch.over("proof_s"):
            claim = prove_plan(
                self._prover,
                self._lab,
                plan,
                self._rungs,
                self._parity_s,
                self._course.tell,
                self._learnt.pairs_of(plan),
                self._note,
            )
        self._note(PlanJudged(plan=plan, claim=claim))
        return claim

    def _note(self, lesson: Lesson) -> None:
        """Of a plan that a recipe was proven of again: the search may come to the same one, and
        each seed counts once."""
        self._journal.note(lesson)
        self._learnt.take(lesson)

    def _train_curves(self, plan: Plan, claim: NumericsClaim) -> tuple[Curves, NumericsClaim]:
        """To look at; but where they speak against the claim, it does not hold."""
        with self._watch.over("curves_s"):
            trainer = CurveTrainer(self._lab, plan, self._prover.seed)
            curves = trainer.train(self._course.tell)
        return curves, claim if trainer.against is None else claim.with_check(trainer.against)
