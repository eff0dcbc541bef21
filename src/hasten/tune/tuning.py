"""One tuning: what its chapters share, and a method for each of them.

``hasten.flow`` calls them in their order. What is measured, searched and settled, and how, is in
the modules that they call.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.records.finding import Finding
from hasten.records.plan import NAIVE, Plan
from hasten.records.progress import Doing
from hasten.records.recipe import Evidence
from hasten.records.target import Allowed
from hasten.records.trial import Trial
from hasten.records.tuning import Aim
from hasten.tune.conclude import evidence_of, proven_again, with_larger_batch
from hasten.tune.confirm import measure_noise, noise_floor, row_s
from hasten.tune.course import Course
from hasten.tune.examine import Examiner
from hasten.tune.files import write_outcome
from hasten.tune.journal import Journal
from hasten.tune.larger import refuse_contradiction, try_larger_batch
from hasten.tune.parity import SEARCH_TIMES
from hasten.tune.prove import Prover
from hasten.tune.search import Search
from hasten.tune.settle import Settled, Settler
from hasten.tune.spending import Stopwatch
from hasten.tune.subject import earlier_recipe, earlier_tuning, subject_of


class Tuning:
    """Use with ``with``: workers end with it, and the journal is closed."""

    def __init__(
        self,
        task: str,
        *,
        out: Path,
        minutes: float,
        seed: int,
        aim: Aim,
        allow: Collection[Allowed],
        tell: Callable[[Doing], None],
        note: Callable[[str], None],
    ) -> None:
        refuse_contradiction(aim, allow)
        self._task, self._out, self._seed, self._aim = task, out, seed, aim
        self._minutes, self._search_s = minutes, 60 * minutes
        self._enlarges = "batch-size" in allow
        self._course = Course(tell, larger_s=self._search_s if self._enlarges else 0.0)
        self._note = note
        self._watch = Stopwatch()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._journal = opening.enter_context(Journal(self._out, self._watch))
            self._lab = opening.enter_context(Lab(self._task, self._seed))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def measure(self) -> None:
        """What the task is, what is known of it already, and the noise of this machine."""
        with self._watch.over("measuring_s"):
            self._course.tell(f"building {self._task} and running one step")
            self._described = self._lab.describe()
            self._subject = subject_of(self._task, self._seed, self._described, self._aim)
            self._learnt = self._journal.begin(self._subject)
            self._control = measure_noise(self._lab, NAIVE, self._course.tell)
            self._course.learn(self._control)
            self._floor = noise_floor(self._control)
        self._settler = Settler(
            self._lab,
            self._prover(self._seed + 1),
            self._described.rungs,
            noise_floor=self._floor,
            parity_s=SEARCH_TIMES * self._search_s,
            aim=self._aim,
            watch=self._watch,
            course=self._course,
            journal=self._journal,
            learnt=self._learnt,
        )

    def prove_again(self) -> Evidence | None:
        """The recipe that was made of the same task here, if it still holds; none where there is
        none, or where this tuning has the time to find more than the one before it."""
        tuned = earlier_tuning(self._out, self._subject)
        goes_on = tuned is not None and tuned.has_more_to_try(self._minutes)
        if tuned is not None and goes_on:
            if self._learnt.spent.search_s < tuned.spent.search_s:  # else it is in the journal
                self._watch.go_on_from(tuned.spent)
            self._learnt.go_on_from(tuned)
        if self._learnt.is_of_use():
            taken_over = f"trials taken over: {self._learnt.tried()}"
            self._note(f"going on from what is in {self._out}; {taken_over}")
        earlier = None if goes_on else earlier_recipe(self._out, self._subject)
        if earlier is None:
            return None
        self._course.enter("proving")
        self._course.tell("proving the recipe again that was made of this task here")
        settled = self._settler.settle(earlier.plan, earlier.worth, earlier.curves)
        return proven_again(earlier, self._control, settled, self._watch.spent())

    def diagnose(self) -> Sequence[Finding]:
        """What costs the naive training most."""
        self._course.foresee_search(self._described.offers, self._search_s)
        self._examiner = Examiner(
            self._lab,
            self._described,
            self._journal,
            self._learnt,
            self._course.tell,
            row_s=row_s(self._control),
        )
        began = time.monotonic()
        with self._watch.over("measuring_s"):
            findings = self._examiner.examine(NAIVE).findings
        self._look_s = time.monotonic() - began
        return findings

    def search(self, findings: Sequence[Finding]) -> Search:
        """For the best plan, by trials."""
        prover = self._prover(self._seed)
        with self._watch.over("search_s"):
            search = Search(
                self._lab,
                prover,
                self._described.offers,
                self._described.rungs,
                noise_floor=self._floor,
                deadline=time.monotonic() + self._search_s,
                diagnose=lambda plan: self._examiner.examine(plan, search.best()).findings,
                note=self._journal.note,
                known=self._learnt.trials,
                aim=self._aim,
                device_bytes=self._described.environment.device.own_bytes(),
                look_s=self._look_s,
            )
            self._course.enter("searching")
            search.run(findings, lambda words: self._course.tell(words, search.so_far()))
            self._course.best = search.so_far()
        prover.forget()
        return search

    def _examine_last(self, plan: Plan, times_faster: float) -> None:
        """For the report, where the search has not looked at it."""
        if plan in self._examiner.asked:
            return
        with self._watch.over("measuring_s"):
            self._course.tell("measuring where the time goes in the end")
            try:
                self._examiner.examine(plan, times_faster)
            except HastenError as error:
                self._note(f"where the time goes in the end could not be measured: {error.what}")

    def settle(self, search: Search) -> Settled | None:
        """Prove its plan from another seed, weigh the parts, confirm it in fresh processes; nothing
        of that where there is none, or none that fits into the memory that is allowed."""
        if search.plan == NAIVE or search.is_too_large():
            return None
        settled = self._settler.settle(search.plan)
        self._examine_last(settled.plan, search.best())
        return settled

    def conclude(self, search: Search, settled: Settled | None) -> Evidence:
        return evidence_of(
            self._subject,
            self._control,
            self._examiner.done,
            search.trials,
            settled,
            self._watch.spent(),
            minutes=self._minutes,
            peak_bytes=search.peak_bytes,
        )

    def enlarge(self, evidence: Evidence) -> Evidence:
        """With larger batches on top, where they are allowed."""
        larger: tuple[Trial, ...] = ()
        if self._enlarges:
            self._course.enter("enlarging")
            with self._watch.over("larger_batch_s"):
                larger = try_larger_batch(
                    self._lab,
                    self._described,
                    evidence,
                    self._floor,
                    self._search_s,
                    self._journal,
                    self._learnt,
                    self._course.tell,
                )
        return with_larger_batch(evidence, larger, self._watch.spent())

    def write(self, evidence: Evidence) -> None:
        """The recipe and its evidence; the journal has served."""
        write_outcome(self._out, evidence, self._described.schema, self._note)
        self._journal.end()

    def _prover(self, seed: int) -> Prover:
        return Prover(self._lab, self._described.traits, seed, self._described.offers)
