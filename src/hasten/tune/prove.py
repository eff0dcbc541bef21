"""Does a plan leave the training the same? Fails closed: what was not shown is not proven."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.lab import Lab, Subject
from hasten.measure.worker import Worker, WorkerFailure, once_more
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.traits import Reduction, Traits
from hasten.records.trial import Offer
from hasten.records.verdict import Check, NumericsClaim
from hasten.stats.randomness import LOOKS
from hasten.tune.chance import check_randomness
from hasten.tune.checks import (
    DATA_EPOCHS,
    DATA_LIMIT_S,
    GLANCE_S,
    RESUME_STEPS,
    check_bitwise,
    check_data_digests,
    check_of,
    check_repeating,
    check_resuming,
    check_rounding,
    check_start,
    stops_to_prove,
)

STREAM_REPEATS = 16
REPEAT_LIMIT_S = 120.0
TRACE_TAKES = 40
"""Times a model's parameters: gradients and updates of eight steps, how far fp64 is from them, and
which have no sure sign."""


class Prover:
    """Compares plans, or a task with other lines, with the naive one from the same seed; the naive
    side is run once a rung."""

    def __init__(self, lab: Lab, traits: Traits, seed: int, offers: Sequence[Offer] = ()) -> None:
        """``offers`` tell which techniques leave the loader as it is; others may not."""
        self._lab = lab
        self.seed = seed
        self._reduction: Reduction = "coupled" if traits.couples_batch else traits.loss_reduction
        self._draws = traits.model.draws_random
        self._trace_bytes = TRACE_TAKES * traits.model.parameter_bytes
        self._traces: dict[Rung, Path] = {}
        self._start: dict[str, str] = {}
        self._traced: dict[Rung, messages.BaselineTraced] = {}
        self._leave_data = {each.technique for each in offers if not each.changes_data}
        self._data: dict[float, messages.DataDigested] = {}
        """By the time that there was for it."""
        self._repeated: dict[int, messages.Repeated] = {}

    def prove(
        self,
        plan: Plan | Subject,
        rung: Rung,
        *,
        glance: bool = True,
        judged: Plan | None = None,
        state: dict[str, str] | None = None,
    ) -> NumericsClaim:
        """The start, data, rung and randomness checks; the first that fails ends it.

        ``glance`` at the data of a plan that leaves the loader as it is; of others all is compared.
        ``judged`` is what is held to the rung where that is not the whole plan, since its precision
        is judged by itself; none of it where it is naive. ``state`` are digests of what another
        process of the plan, from the same seed, began with: then none is built for them.
        """
        checks: list[Check] = []

        def check_all() -> None:
            """What the naive process has told by then is kept for another time."""
            checks.clear()
            worker = self._lab.worker()
            try:
                for check in self._checks(worker, plan, rung, glance, judged or plan, state):
                    checks.append(check)
                    if check.verdict != "proven":
                        break
            finally:
                worker.close()

        try:
            once_more(check_all)
        except WorkerFailure as failure:
            lost = check_of(rung, "not_proven", failure.in_a_line())
            if checks and checks[-1].name == lost.name:  # what comes behind it is all that is left
                lost = msgspec.structs.replace(lost, name="randomness")
            checks.append(lost)
        verdict = checks[-1].verdict if checks else "not_proven"
        return NumericsClaim(rung=rung, verdict=verdict, checks=tuple(checks))

    def prove_resuming(self, plan: Plan) -> Check:
        """A training in several processes, each of which goes on from a checkpoint of the one
        before, against one that was never stopped."""
        try:
            return once_more(lambda: self._resume(plan))
        except WorkerFailure as failure:
            why = failure.in_a_line()
            return Check(name="resume", verdict="not_proven", why=why)

    def _resume(self, plan: Plan) -> Check:
        folder = tempfile.mkdtemp(dir=self._lab.folder)
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

    def forget(self) -> None:
        """What naive steps came to, which is large; who asks for it again has them run again."""
        for path in self._traces.values():
            self._lab.drop_file(path)
        self._traces.clear()
        self._traced.clear()

    def _train(
        self, plan: Plan, folder: str, steps: int, *, resume: bool = False
    ) -> messages.Trained:
        worker = self._lab.worker(anew=True)  # as the one that goes on will be
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
        self,
        worker: Worker,
        plan: Plan | Subject,
        rung: Rung,
        glance: bool,
        judged: Plan | Subject,
        state: dict[str, str] | None,
    ) -> Iterator[Check]:
        has_rung = judged != NAIVE or plan == NAIVE
        changes_data = self._may_change_data(plan)
        data_s = DATA_LIMIT_S if changes_data else GLANCE_S if glance else None
        self._run_baseline(rung if has_rung else None, data_s)
        if state is None or data_s is not None:  # the loader of what is started is digested next
            state = self._state(worker, plan)
        start = check_start(self._start, state)
        if start.verdict != "proven":
            self._refuse_restless_start()
        yield start
        if data_s is not None:
            digested = _digest_data(worker, data_s)
            yield check_data_digests(self._data[data_s], digested, in_full=changes_data)
        if not has_rung:
            return
        if rung is Rung.BITWISE and (restless := check_repeating(self._traced[rung])) is not None:
            yield restless  # and the plan need not be run
            return
        started = worker.ask(self._request(judged, rung), messages.Started)
        lost = [each for each in started.applied if each.outcome != "done"]
        if lost:
            yield check_of(rung, "not_proven", f"in the proof, {lost[0]}")
            return
        traced = worker.ask(self._trace(rung, "candidate"), messages.CandidateTraced)
        if rung is Rung.BITWISE:
            yield check_bitwise(self._traced[rung], traced, self._draws)
            return
        yield check_rounding(self._traced[rung], traced, self._draws)
        if self._draws:
            yield self._check_randomness(worker, judged)

    def _may_change_data(self, plan: Plan | Subject) -> bool:
        """Other lines of code may do anything."""
        return isinstance(plan, Subject) or not self._leave_data.issuperset(plan.parts)

    def _check_randomness(self, worker: Worker, plan: Plan | Subject) -> Check:
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

    def _repeat(self, worker: Worker, plan: Plan | Subject, count: int) -> messages.Repeated:
        start = self._lab.start(plan, proof=Rung.BITWISE, seed=self.seed, watch_masks=True)
        worker.ask(start, messages.Started)
        request = messages.Repeat(count=count, seed=self.seed, limit_s=REPEAT_LIMIT_S)
        return worker.ask(request, messages.Repeated)

    def _run_baseline(self, rung: Rung | None, data_s: float | None) -> None:
        """The naive side, as far as it is needed and was not run before; its data for so long."""
        has_trace = rung is None or rung in self._traced
        if self._start and has_trace and (data_s is None or data_s in self._data):
            return
        with self._lab.worker() as worker:
            self._start = self._state(worker, NAIVE)
            if data_s is not None and data_s not in self._data:
                self._data[data_s] = _digest_data(worker, data_s)
            if rung is not None and rung not in self._traced:
                worker.ask(self._request(NAIVE, rung), messages.Started)
                request = self._trace(rung, "baseline")
                self._traced[rung] = worker.ask(request, messages.BaselineTraced)

    def _refuse_restless_start(self) -> None:
        """What begins otherwise each time is no plan's fault, and nothing can be proven of it."""
        with self._lab.worker() as worker:
            restless = check_start(self._start, self._state(worker, NAIVE))
        if restless.verdict != "proven":
            raise HastenError(
                f"{self._lab.task} is another training each time that it is built from one seed:"
                f" {restless.why}.",
                fix="Draw from the generators of random, NumPy and torch, which are seeded before"
                " it is called, or from your own with a seed that stays; not from the clock.",
            )

    def _state(self, worker: Worker, plan: Plan | Subject) -> dict[str, str]:
        """Before step 1."""
        worker.ask(self._request(plan), messages.Started)
        return worker.ask(messages.DigestState(), messages.StateDigested).state

    def _request(self, plan: Plan | Subject, rung: Rung | None = None) -> messages.Start:
        return self._lab.start(plan, proof=rung, seed=self.seed)

    def _trace(self, rung: Rung, role: Literal["baseline", "candidate"]) -> messages.Trace:
        if rung not in self._traces:
            name = f"trace-{self.seed}-{rung}"
            self._traces[rung] = self._lab.large_file(name, self._trace_bytes)
        epoch = self._traced[rung].epoch if role == "candidate" else None
        return messages.Trace(
            path=str(self._traces[rung]),
            role=role,
            rung=rung,
            reduction=self._reduction,
            epoch=epoch,
        )


def _digest_data(worker: Worker, limit_s: float) -> messages.DataDigested:
    request = messages.DigestData(epochs=DATA_EPOCHS, limit_s=limit_s)
    return worker.ask(request, messages.DataDigested)
