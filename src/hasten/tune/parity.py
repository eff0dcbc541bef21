"""Does a training in another precision come to the same? Pairs of seeds, until it is decided.

Each seed is trained twice, naively and by the plan, from the same weights and with the same order
of data, for one epoch (within bounds) or what the time allows. Compared are the training loss, as
the mean over the last quarter of the steps, the evaluation's loss and the task's metrics
(stats.equivalence). A plan that diverges where the naive training does not is refuted at once.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.worker import Worker, WorkerFailure, once_more
from hasten.records.applied import fallback_in
from hasten.records.parity import Parity, ParityFigure, SeedPair
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.tuning import PairTrained
from hasten.records.verdict import Check, NumericsClaim, Verdict
from hasten.stats.equivalence import ERROR, LOOKS, judge
from hasten.tune.prove import Prover
from hasten.tune.seeds import (
    LEAST_STEPS,
    curve_of,
    finite_losses,
    seed_to_train,
    train_together,
)

ROSE = 1.5
"""A loss that ends so many times above where it began, where the naive one fell, has diverged."""
SEARCH_TIMES = 2.0
"""So many times as long as a search the trainings in another precision may take: what they prove is
often most of what was gained, and all of it is lost where they end without a verdict."""
USUAL_SEEDS = LOOKS[1]
"""That the time should be enough for, by the length of a training: fewer prove only what differs by
a sixth of what seeds do."""
GRACE_S = 120.0
"""For building the task and for the evaluation, beyond the time for steps."""


def prove_plan(
    prover: Prover,
    lab: Lab,
    plan: Plan,
    rungs: Mapping[str, Rung],
    limit_s: float,
    tell: Callable[[str], None],
    trained: Sequence[PairTrained] = (),
    note: Callable[[PairTrained], None] = lambda pair: None,
) -> NumericsClaim:
    """A plan on any rung. Precision is a step by itself: all other parts are first held to their
    own rung without it, then the whole plan to parity. ``trained`` are pairs of the same proof
    that was stopped; each new one is noted."""
    rung = Rung.deepest(rungs[name] for name in plan.parts)
    if rung is Rung.CHANGES_TRAINING:
        changing = next(name for name in plan.parts if rungs[name] is rung)
        raise HastenError(
            f"{changing} changes the training, which is nothing to prove.",
            fix="Take that part out of the plan to prove the rest. A larger batch is judged by"
            " hasten tune TASK --allow batch-size.",
        )
    claim = prove_steps(prover, plan, rungs)
    if rung is not Rung.PARITY or claim.verdict != "proven":
        return claim
    parity = ParityProver(lab, plan, prover.seed, limit_s, trained, note)
    return claim.with_check(parity.prove(tell), parity.parity)


def prove_steps(
    prover: Prover,
    plan: Plan,
    rungs: Mapping[str, Rung],
    *,
    glance: bool = True,
    state: dict[str, str] | None = None,
) -> NumericsClaim:
    """All that steps tell. What changes the precision is left out where they are traced: whether
    it trains as well, only training tells. ``state`` that the plan began with, where a process of
    it has told."""
    rung = Rung.deepest(rungs[name] for name in plan.parts)
    if rung is not Rung.PARITY:
        return prover.prove(plan, rung, glance=glance, state=state)
    judged = plan.without(*(name for name in plan.parts if rungs[name] is rung))
    judged_on = Rung.deepest(rungs[name] for name in judged.parts)
    claim = prover.prove(plan, judged_on, glance=glance, judged=judged, state=state)
    left_out = f"without {', '.join(plan.without(*judged.parts).parts)}: "
    checks = [
        msgspec.structs.replace(each, why=left_out + each.why)
        if each.name in (judged_on.value, "randomness")
        else each
        for each in claim.checks
    ]
    return msgspec.structs.replace(claim, rung=rung, checks=tuple(checks))


class ParityProver:
    """Trains pairs of seeds. What was measured so far is in ``parity``."""

    def __init__(
        self,
        lab: Lab,
        plan: Plan,
        seed: int,
        limit_s: float,
        trained: Sequence[PairTrained] = (),
        note: Callable[[PairTrained], None] = lambda pair: None,
    ) -> None:
        self._lab, self._plan, self._seed = lab, plan, seed
        self._limit_s, self._note = limit_s, note
        self._began = time.monotonic()
        self._steps = trained[0].steps if trained else None
        self._pairs = [each.pair for each in trained]
        self._known = len(trained)
        self._together: bool | None = None
        """Whether both sides of a pair train at the same time; None before that is known."""
        self._figures: list[ParityFigure] = []

    @property
    def parity(self) -> Parity | None:
        if not self._pairs:
            return None
        return Parity(
            steps=self._steps or 0,
            error=ERROR,
            figures=tuple(self._figures),
            pairs=tuple(self._pairs),
        )

    def prove(self, tell: Callable[[str], None]) -> Check:
        """Where a process dies, it goes on from the seed that it was at."""

        def train() -> Check:
            with self._lab.worker() as naive, self._lab.worker() as plan:
                return self._prove(naive, plan, tell)

        try:
            return once_more(train)
        except WorkerFailure as failure:
            return _check("not_proven", failure.in_a_line())

    def _prove(self, naive: Worker, plan: Worker, tell: Callable[[str], None]) -> Check:
        check = self._look() if self._pairs and len(self._pairs) in LOOKS else None
        if check is not None:
            return check
        while len(self._pairs) < LOOKS[-1] and not self._is_spent():
            tell(seed_in_words(len(self._pairs) + 1))
            against = self._add_pair(naive, plan)
            if against is not None:
                return against
            check = self._look() if len(self._pairs) in LOOKS else None
            if check is not None:
                return check
        if len(self._pairs) < LOOKS[0]:
            return self._undecided()
        check = self._look()
        # A proof that is gone on with has had its look between two of the plan's.
        return self._undecided() if check is None or self._known else check

    def _look(self) -> Check | None:
        self._figures = compare(self._pairs)
        return decide(self._figures, self._words())

    def _undecided(self) -> Check:
        spent = len(self._pairs) < LOOKS[-1]
        why = ", and the time was spent" if spent else ": no verdict"
        why = f"{self._words()}{why}{_worst(self._figures)}"
        return _check("not_proven", why, short_of_time=spent)

    def _is_spent(self) -> bool:
        """Whether one more pair, as long as the others took, goes beyond the time."""
        spent = time.monotonic() - self._began
        done = len(self._pairs) - self._known
        return done > 0 and spent * (done + 1) / done > self._limit_s

    def _add_pair(self, naive: Worker, plan: Worker) -> Check | None:
        """The pair is kept; what it alone decides is returned."""
        seed = self._seed + len(self._pairs)
        if self._steps is None:
            one = self._first_of_all(naive, seed)
            self._steps = len(one.losses)
            if self._steps < LEAST_STEPS:
                why = f"{self._steps} steps a seed fit into the time, and {LEAST_STEPS} are needed"
                return _check("not_proven", why, short_of_time=True)
            (other,) = self._train([(plan, self._plan)], seed)
        else:
            one, other = self._train_pair([(naive, NAIVE), (plan, self._plan)], seed)
        if self._together is None:
            self._together = one.device != "cpu"
        pair = SeedPair(seed=seed, naive=curve_of(one), plan=curve_of(other))
        self._pairs.append(pair)
        against = judge_pair(one, other, seed)
        if against is None:
            self._note(PairTrained(plan=self._plan, steps=self._steps, pair=pair))
        return against

    def _first_of_all(self, naive: Worker, seed: int) -> messages.SeedTrained:
        """As many steps as leave time for the usual number of seeds; where these are too few, as
        many as are needed, if there is time for the fewest seeds."""
        began = time.monotonic()
        (one,) = self._train([(naive, NAIVE)], seed)
        missing = LEAST_STEPS - len(one.losses)
        needed_s = time.monotonic() - began + missing * one.elapsed_s / max(len(one.losses), 1)
        if missing <= 0 or 2 * LOOKS[0] * needed_s > self._limit_s:
            return one
        self._steps = LEAST_STEPS
        (one,) = self._train([(naive, NAIVE)], seed)
        return one

    def _train_pair(
        self, sides: list[tuple[Worker, Plan]], seed: int
    ) -> list[messages.SeedTrained]:
        """On a device of its own at the same time: the one computes while the other is built or
        compiled. One after the other where it has not room for both."""
        if self._together:
            try:
                return self._train(sides, seed)
            except WorkerFailure as failure:
                if failure.failed.kind != "out_of_memory":
                    raise
                self._together = False
        return [trained for side in sides for trained in self._train([side], seed)]

    def _train(self, sides: list[tuple[Worker, Plan]], seed: int) -> list[messages.SeedTrained]:
        requests = [
            seed_to_train(
                self._lab.task,
                plan,
                seed,
                steps=self._steps,
                steps_s=self._limit_s / (2 * USUAL_SEEDS),
            )
            for _, plan in sides
        ]
        workers = [worker for worker, _ in sides]
        return train_together(
            list(zip(workers, requests, strict=True)), limit_s=self._limit_s + GRACE_S
        )

    def _words(self) -> str:
        return f"{len(self._pairs)} seeds of {self._steps} steps"


def seed_in_words(number: int) -> str:
    return f"training seed {number} both ways"


def judge_pair(naive: messages.SeedTrained, plan: messages.SeedTrained, seed: int) -> Check | None:
    """What one seed decides: it was no pair, or one side diverged."""
    if (lost := fallback_in(plan.applied)) is not None:
        return _check("not_proven", f"in the proof, {lost}")
    unequal = [key for key in naive.start if naive.start[key] != plan.start.get(key)]
    if unequal or naive.start.keys() != plan.start.keys():
        return _check(
            "refuted", f"seed {seed} does not begin alike: {min(unequal, default='state')}"
        )
    if naive.figures.keys() != plan.figures.keys():
        odd = min(naive.figures.keys() ^ plan.figures.keys())
        return _check("not_proven", f"from seed {seed} one side alone has a figure for {odd}")
    if not _is_finite(naive):
        return _check("not_proven", f"the naive training diverges from seed {seed}")
    if not _is_finite(plan):
        return _check("refuted", f"from seed {seed} it diverges, and the naive training does not")
    if _rose(plan) and not _rose(naive):
        return _check("refuted", f"from seed {seed} its loss rises, and the naive training's falls")
    return None


def compare(pairs: list[SeedPair]) -> list[ParityFigure]:
    found = []
    names = pairs[0].naive.figures
    for name in names:
        naive = [pair.naive.figures[name] for pair in pairs]
        judged = judge(naive, [pair.plan.figures[name] for pair in pairs], among=len(names))
        found.append(
            ParityFigure(
                name=name,
                naive=statistics.fmean(naive),
                difference=judged.difference,
                low=judged.low,
                high=judged.high,
                margin=judged.margin,
                spread=judged.spread,
                likeness=judged.likeness,
            )
        )
    return found


def decide(figures: list[ParityFigure], words: str) -> Check | None:
    """All alike proves, one unlike refutes; else more seeds are needed. No figures are no proof."""
    different = [each for each in figures if each.likeness == "different"]
    if different:
        return _check("refuted", f"{words}: {_in_words(different[0])}")
    if figures and all(each.likeness == "equivalent" for each in figures):
        return _check("proven", f"{words}{_worst(figures)}")
    return None


def _worst(figures: list[ParityFigure]) -> str:
    if not figures:
        return ""
    return f": {_in_words(max(figures, key=ParityFigure.share))}"


def _in_words(figure: ParityFigure) -> str:
    return (
        f"{figure.name}, naive {figure.naive:.4g}, differs by {figure.difference:+.2g}"
        f" ({figure.low:+.2g} to {figure.high:+.2g}), margin ±{figure.margin:.2g}"
    )


def _check(verdict: Verdict, why: str, *, short_of_time: bool = False) -> Check:
    return Check(name="parity", verdict=verdict, why=why, short_of_time=short_of_time)


def _is_finite(trained: messages.SeedTrained) -> bool:
    return None not in trained.losses and None not in trained.figures.values()


def _rose(trained: messages.SeedTrained) -> bool:
    losses = finite_losses(trained)
    part = max(len(losses) // 10, 1)
    begins, ends = statistics.fmean(losses[:part]), statistics.fmean(losses[-part:])
    return ends > begins + (ROSE - 1) * abs(begins)
