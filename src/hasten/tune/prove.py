"""Does a plan leave the training the same? Fails closed: what was not shown is not proven."""

import tempfile
from collections.abc import Iterator
from typing import Literal

from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.traits import Reduction, Traits
from hasten.records.verdict import Check, NumericsClaim, Verdict
from hasten.stats.randomness import LOOKS
from hasten.stats.yardstick import ALLOWED, Excess, Norms, excess
from hasten.tune.chance import check_randomness

DATA_EPOCHS = 2
"""A wrong order often shows in the second epoch only."""
DATA_LIMIT_S = 120.0
UNSTEADY = 10.0
"""How many times what rounding may cause a naive training may differ from itself, as sums of no
fixed order do on a GPU, and still be compared with."""
RESUME_STEPS = 100
LOSS_ROUNDING = 1e-6
"""Relative: the last digits of an fp32 loss."""
RATE_ROUNDING = 2.0**-23
STREAM_REPEATS = 16
REPEAT_LIMIT_S = 120.0


class Prover:
    """Compares plans with the naive one from the same seed; the naive side is run once a rung."""

    def __init__(self, lab: Lab, traits: Traits, seed: int) -> None:
        self._lab = lab
        self.seed = seed
        self._reduction: Reduction = "coupled" if traits.couples_batch else traits.loss_reduction
        self._draws = traits.model.draws_random
        self._start: dict[str, str] = {}
        self._traced: dict[Rung, messages.BaselineTraced] = {}
        self._data: messages.DataDigested | None = None
        self._repeated: dict[int, messages.Repeated] = {}

    def prove(
        self, plan: Plan, rung: Rung, *, check_data: bool, judged: Plan | None = None
    ) -> NumericsClaim:
        """The start, data, rung and randomness checks; the first that fails ends it.

        ``judged`` is what is held to the rung where that is not the whole plan, since its precision
        is judged by itself; none of it where it is naive.
        """
        checks: list[Check] = []
        worker = self._lab.worker()
        try:
            for check in self._checks(worker, plan, rung, check_data, judged or plan):
                checks.append(check)
                if check.verdict != "proven":
                    break
        except WorkerFailure as failure:
            checks.append(_check(rung, "not_proven", failure.failed.what.splitlines()[0]))
        finally:
            worker.close()
        verdict = checks[-1].verdict if checks else "not_proven"
        return NumericsClaim(rung=rung, verdict=verdict, checks=tuple(checks))

    def prove_resuming(self, plan: Plan) -> Check:
        """A training in several processes, each of which goes on from a checkpoint of the one
        before, against one that was never stopped."""
        folder = tempfile.mkdtemp(dir=self._lab.folder)
        try:
            whole = self._train(plan, f"{folder}/whole", RESUME_STEPS)
            stops = stops_to_prove(whole.batches_per_epoch)
            parts = [
                self._train(plan, f"{folder}/parts", steps, resume=place > 0)
                for place, steps in enumerate((*stops, RESUME_STEPS))
            ]
            if parts[-1].state == whole.state:
                return check_resuming(stops, whole, parts, whole)
            again = self._train(plan, f"{folder}/again", RESUME_STEPS)
            return check_resuming(stops, whole, parts, again)
        except WorkerFailure as failure:
            why = failure.failed.what.splitlines()[0]
            return Check(name="resume", verdict="not_proven", why=why)

    def _train(
        self, plan: Plan, folder: str, steps: int, *, resume: bool = False
    ) -> messages.Trained:
        worker = self._lab.worker()
        try:
            request = messages.TrainFor(
                task=self._lab.task,
                plan=plan,
                seed=self.seed,
                steps=steps,
                folder=folder,
                resume=resume,
            )
            return worker.ask(request, messages.Trained)
        finally:
            worker.close()

    def _checks(
        self, worker: Worker, plan: Plan, rung: Rung, check_data: bool, judged: Plan
    ) -> Iterator[Check]:
        has_rung = judged != NAIVE or plan == NAIVE
        self._run_baseline(rung if has_rung else None, check_data)
        started = worker.ask(self._request(plan), messages.Started)
        yield check_start(self._start, started.state)
        if self._data is not None and check_data:
            yield check_data_digests(self._data, _digest_data(worker))
        if not has_rung:
            return
        started = worker.ask(self._request(judged, rung), messages.Started)
        lost = [each for each in started.applied if each.outcome != "done"]
        if lost:
            yield _check(rung, "not_proven", f"in the proof, {lost[0]}")
            return
        traced = worker.ask(self._trace(rung, "candidate"), messages.CandidateTraced)
        if rung is Rung.BITWISE:
            yield check_bitwise(self._traced[rung], traced, self._draws)
            return
        yield check_rounding(self._traced[rung], traced, self._draws)
        if self._draws:
            yield self._check_randomness(worker, judged)

    def _check_randomness(self, worker: Worker, plan: Plan) -> Check:
        """Few repeats tell whether the streams are one; else more, until they can be compared."""
        for count in (STREAM_REPEATS, *LOOKS):
            naive = self._repeat_naive(count)
            found = self._repeat(worker, plan, count)
            check = check_randomness(naive, found, decides=count in LOOKS)
            if check is not None:
                return check
        seen = len(found.values["loss"])
        why = f"{seen} repeats of a step are too few to compare two streams of random numbers"
        return Check(name="randomness", verdict="not_proven", why=why)

    def _repeat_naive(self, count: int) -> messages.Repeated:
        if count not in self._repeated:
            with self._lab.worker() as worker:
                self._repeated[count] = self._repeat(worker, NAIVE, count)
        return self._repeated[count]

    def _repeat(self, worker: Worker, plan: Plan, count: int) -> messages.Repeated:
        start = self._lab.start(plan, proof=Rung.BITWISE, seed=self.seed, watch_masks=True)
        worker.ask(start, messages.Started)
        request = messages.Repeat(count=count, seed=self.seed, limit_s=REPEAT_LIMIT_S)
        return worker.ask(request, messages.Repeated)

    def _run_baseline(self, rung: Rung | None, check_data: bool) -> None:
        """The naive side, as far as it is needed and was not run before."""
        has_trace = rung is None or rung in self._traced
        if self._start and has_trace and (self._data is not None or not check_data):
            return
        with self._lab.worker() as worker:
            self._start = worker.ask(self._request(NAIVE), messages.Started).state
            if check_data and self._data is None:
                self._data = _digest_data(worker)
            if rung is not None and rung not in self._traced:
                worker.ask(self._request(NAIVE, rung), messages.Started)
                request = self._trace(rung, "baseline")
                self._traced[rung] = worker.ask(request, messages.BaselineTraced)

    def _request(self, plan: Plan, rung: Rung | None = None) -> messages.Start:
        return self._lab.start(plan, proof=rung, seed=self.seed)

    def _trace(self, rung: Rung, role: Literal["baseline", "candidate"]) -> messages.Trace:
        path = self._lab.folder / f"trace-{self.seed}-{rung}.safetensors"
        epoch = self._traced[rung].epoch if role == "candidate" else None
        return messages.Trace(path=str(path), role=role, reduction=self._reduction, epoch=epoch)


def _check(rung: Rung, verdict: Verdict, why: str) -> Check:
    return Check(name="bitwise" if rung is Rung.BITWISE else "rounding", verdict=verdict, why=why)


def _digest_data(worker: Worker) -> messages.DataDigested:
    request = messages.DigestData(epochs=DATA_EPOCHS, limit_s=DATA_LIMIT_S)
    return worker.ask(request, messages.DataDigested)


def check_start(naive: dict[str, str], plan: dict[str, str]) -> Check:
    """Both sides begin from the same bits."""
    unequal = sorted(key for key in naive.keys() | plan.keys() if naive.get(key) != plan.get(key))
    if unequal:
        why = f"{unequal[0]} differs before the first step ({len(unequal)} in all)"
        return Check(name="start", verdict="refuted", why=why)
    return Check(name="start", verdict="proven", why=f"{len(naive)} digests equal before step 1")


def check_data_digests(naive: messages.DataDigested, plan: messages.DataDigested) -> Check:
    """The same batches in the same order, and the random generators moved alike."""
    pairs = zip(naive.batches, plan.batches, strict=False)
    first = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    if first is not None:
        return Check(name="data", verdict="refuted", why=f"batch {first} is another one")
    if not (naive.complete and plan.complete):
        seen = min(len(naive.batches), len(plan.batches))
        why = f"only {seen} batches could be compared in {DATA_LIMIT_S:.0f} s"
        return Check(name="data", verdict="not_proven", why=why)
    if len(naive.batches) != len(plan.batches):
        why = f"{len(plan.batches)} batches in {DATA_EPOCHS} epochs, not {len(naive.batches)}"
        return Check(name="data", verdict="refuted", why=why)
    if naive.after != plan.after:
        why = "the random generators stand elsewhere after the epochs"
        return Check(name="data", verdict="refuted", why=why)
    why = f"{len(naive.batches)} batches of {DATA_EPOCHS} epochs equal to the bit"
    return Check(name="data", verdict="proven", why=why)


def stops_to_prove(batches_per_epoch: int | None) -> list[int]:
    """After how many steps: in the midst, and before and behind the last batch of the first epoch,
    which may be smaller than the others."""
    stops = {RESUME_STEPS // 2}
    if batches_per_epoch is not None:
        stops |= {batches_per_epoch - 1, batches_per_epoch}
    return sorted(each for each in stops if 0 < each < RESUME_STEPS)


def check_resuming(
    stops: list[int],
    whole: messages.Trained,
    parts: list[messages.Trained],
    again: messages.Trained,
) -> Check:
    """``again`` is the whole once more, which tells a wrong checkpoint from a restless training."""
    where = ", ".join(map(str, stops[:-1])) + (" and " if stops[:-1] else "") + str(stops[-1])
    applied = [each for one in (whole, *parts) for each in one.applied]
    lost = [each for each in applied if each.outcome != "done"]
    if lost:
        why = f"in the proof, {lost[0].technique} {lost[0].outcome.replace('_', ' ')}"
        return Check(name="resume", verdict="not_proven", why=f"{why}: {lost[0].why}")
    state = parts[-1].state
    if state == whole.state:
        why = f"{RESUME_STEPS} steps with a stop after {where} equal {RESUME_STEPS}, to the bit"
        return Check(name="resume", verdict="proven", why=why)
    if again.state != whole.state:
        why = "the training does not repeat itself to the bit, stopped or not"
        return Check(name="resume", verdict="not_proven", why=why)
    names = sorted(whole.state.keys() | state.keys())
    unequal = next(key for key in names if whole.state.get(key) != state.get(key))
    why = f"{unequal} is another after {RESUME_STEPS} steps with a stop after {where}"
    return Check(name="resume", verdict="refuted", why=why)


def check_bitwise(
    naive: messages.BaselineTraced, plan: messages.CandidateTraced, draws: bool = False
) -> Check:
    """Losses, gradients and updates of each step, and the whole state after the last."""
    if plan.did_not_run:
        return _check(Rung.BITWISE, "not_proven", f"in the proof, {plan.did_not_run[0]}")
    if not naive.repeats:
        why = "the naive training does not repeat itself to the bit, so nothing can equal it"
        return _check(Rung.BITWISE, "not_proven", why)
    other = _another_course(naive, plan)
    if other:
        return _check(Rung.BITWISE, "refuted", other)
    if plan.first_unequal:
        return _check(Rung.BITWISE, "refuted", f"{plan.first_unequal} differs")
    unequal = [key for key in naive.end if naive.end[key] != plan.end.get(key)]
    if unequal:
        return _check(Rung.BITWISE, "refuted", f"{unequal[0]} differs after the steps")
    why = f"{_steps(naive)} and the state after them equal to the bit"
    if draws:
        why += "; random numbers are the same stream"
    return _check(Rung.BITWISE, "proven", why)


def check_rounding(
    naive: messages.BaselineTraced, plan: messages.CandidateTraced, draws: bool
) -> Check:
    """Within twice what a perturbation of 1e-5 of the naive weights causes (stats.yardstick)."""
    if plan.did_not_run:
        return _check(Rung.ROUNDING, "not_proven", f"in the proof, {plan.did_not_run[0]}")
    other = _another_course(naive, plan)
    if other:
        return _check(Rung.ROUNDING, "refuted", other)
    if _unsteadiness(naive) > UNSTEADY:
        why = "the naive training differs from itself by more than rounding"
        return _check(Rung.ROUNDING, "not_proven", why)
    shares = {key: _excess(naive, plan, key) for key in naive.quantities}
    worst = max(shares, key=lambda key: shares[key].share)
    loss = _loss_excess(naive, plan)
    largest = max(shares[worst].share, loss)
    verdict: Verdict = "proven" if largest <= 1.0 else "refuted"
    where = f"{worst}: {shares[worst].parameter}" if shares[worst].share >= loss else "losses"
    why = f"{100 * largest:.2g} % of what rounding may cause in {_steps(naive)} ({where})"
    excused = {name for each in shares.values() for name in each.excused}
    if excused and verdict == "proven":
        why += f"; {len(excused)} parameters differ by more, nearer to fp64 than the naive training"
    if not naive.repeats:
        why += "; the naive training does not repeat itself to the bit"
    if draws:
        why += "; dropout was off"
    return _check(Rung.ROUNDING, verdict, why)


def _excess(naive: messages.BaselineTraced, plan: messages.CandidateTraced, key: str) -> Excess:
    base = naive.quantities[key]
    return excess(
        Norms(
            size=base.size,
            sensitivity=base.sensitivity,
            resolution=base.resolution,
            difference=plan.quantities[key].norms,
            epsilon=naive.epsilon,
            baseline_error=base.fp64_error,
            candidate_error=plan.quantities[key].fp64_error,
        )
    )


def _unsteadiness(naive: messages.BaselineTraced) -> float:
    """Against rounding alone: what does not repeat itself has unsteady perturbations too.

    Not of updates: Adam makes a whole one of a gradient that is nothing but rounding.
    """
    return max(
        excess(
            Norms(
                size=base.size,
                sensitivity=dict.fromkeys(base.size, 0.0),
                resolution=base.resolution,
                difference=base.unsteadiness,
                epsilon=naive.epsilon,
            )
        ).share
        for key, base in naive.quantities.items()
        if not key.startswith("updates")
    )


def _loss_excess(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> float:
    rows = zip(naive.losses, plan.losses, naive.loss_sensitivity, strict=True)
    shares = [
        abs(one - other) / max(ALLOWED * moved + LOSS_ROUNDING * abs(one), 1e-300)
        for one, other, moved in rows
    ]
    return max((share if share == share else float("inf") for share in shares), default=0.0)


def _steps(naive: messages.BaselineTraced) -> str:
    edge = "over an epoch's end" if naive.epoch else "that reached no epoch's end"
    return f"{len(naive.steps)} steps {edge}"


def _another_course(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> str | None:
    """What no rounding explains: other epochs, other gradients, another schedule."""
    if plan.epoch != naive.epoch:
        return f"an epoch has {plan.epoch} batches, not {naive.epoch}"
    if plan.missing:
        return f"{plan.missing[0]} has a gradient on one side only ({len(plan.missing)} in all)"
    for number, (one, other) in enumerate(zip(naive.schedule, plan.schedule, strict=True), 1):
        if len(one) != len(other) or not all(map(_same_rate, one, other)):
            return f"the learning rates or their schedule differ after step {number}"
    return None


def _same_rate(one: float, other: float) -> bool:
    """A captured step holds its rate in fp32."""
    return one == other or abs(one - other) <= RATE_ROUNDING * abs(one)
