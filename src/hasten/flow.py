"""The story: a task becomes a proven recipe.

    task -> measure -> diagnose -> propose -> search -> confirm -> prove -> recipe

Read this first. There is no logic here, only the chain; each call leads to the room that has it.
"""

import time
from collections.abc import Callable, Collection
from pathlib import Path

from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.records.progress import Doing
from hasten.records.recipe import Evidence
from hasten.records.target import Allowed
from hasten.records.trial import Trial
from hasten.records.tuning import FASTER, Aim
from hasten.tune.conclude import evidence_of, proven_again, with_larger_batch
from hasten.tune.confirm import measure_noise, noise_floor
from hasten.tune.course import Course
from hasten.tune.examine import Examiner
from hasten.tune.files import write_outcome, write_report
from hasten.tune.journal import Journal
from hasten.tune.larger import refuse_contradiction, try_larger_batch
from hasten.tune.parity import SEARCH_TIMES
from hasten.tune.prove import Prover
from hasten.tune.search import Search
from hasten.tune.settle import Settler
from hasten.tune.spending import Stopwatch
from hasten.tune.subject import earlier_recipe, subject_of


def tune(
    task: str,
    *,
    out: Path,
    minutes: float = 5.0,
    seed: int = 0,
    aim: Aim = FASTER,
    allow: Collection[Allowed] = (),
    tell: Callable[[Doing], None] = lambda doing: None,
    note: Callable[[str], None] = lambda message: None,
    warn: Callable[[str], None] = lambda message: None,
) -> Evidence:
    """Find what makes ``task`` faster, or smaller, prove it, and write the recipe into ``out``.

    ``allow`` names what may change in the training; that comes last, and apart. ``minutes`` bounds
    the search, twice as much the trainings that prove another precision, and once more those of a
    larger batch; confirming comes on top. ``tell`` is called with each thing that is begun,
    ``note`` with what is gone on from, ``warn`` with what went wrong and costs neither recipe nor
    verdict.
    """
    refuse_contradiction(aim, allow)
    enlarges = "batch-size" in allow
    course = Course(tell, larger_s=60 * minutes if enlarges else 0.0)
    watch = Stopwatch()
    with Journal(out, watch) as journal, Lab(task, seed) as lab:
        with watch.over("measuring_s"):
            course.tell(f"building {task} and running one step")
            described = lab.describe()
            subject = subject_of(task, seed, described, aim)
            learnt = journal.begin(subject)
            control = measure_noise(lab, NAIVE, course.tell)
            course.learn(control)
            floor = noise_floor(control)

        settler = Settler(
            lab,
            Prover(lab, described.traits, seed + 1, described.offers),
            described.rungs,
            noise_floor=floor,
            parity_s=SEARCH_TIMES * 60 * minutes,
            aim=aim,
            watch=watch,
            course=course,
            journal=journal,
            learnt=learnt,
        )
        evidence = None
        earlier = earlier_recipe(out, subject)
        if earlier is not None and earlier.has_more_to_try(minutes):
            learnt = learnt.on_top_of(earlier)
        elif earlier is not None:
            course.enter("proving")
            course.tell("proving the recipe again that was made of this task here")
            settled = settler.settle(earlier.plan, earlier.worth, earlier.curves)
            evidence = proven_again(earlier, control, settled, watch.spent())

        if evidence is None:
            if learnt.is_of_use():
                note(f"going on from what is in {out}; trials taken over: {learnt.tried()}")
            course.foresee_search(described.offers, 60 * minutes)
            examiner = Examiner(lab, described, journal, learnt, course.tell)
            with watch.over("measuring_s"):
                findings = examiner.examine(NAIVE).findings
            with watch.over("search_s"):
                search = Search(
                    lab,
                    Prover(lab, described.traits, seed, described.offers),
                    described.offers,
                    described.rungs,
                    noise_floor=floor,
                    deadline=time.monotonic() + 60 * minutes,
                    diagnose=lambda plan: examiner.examine(plan).findings,
                    note=journal.note,
                    known=learnt.trials,
                    aim=aim,
                    device_bytes=described.environment.device.own_bytes(),
                )
                course.enter("searching")
                search.run(findings, lambda words: course.tell(words, search.so_far()))
            final = settler.settle(search.plan) if search.plan != NAIVE else None
            evidence = evidence_of(
                subject,
                control,
                examiner.done,
                search.trials,
                final,
                watch.spent(),
                minutes=minutes,
                peak_bytes=search.peak_bytes,
            )

        larger: tuple[Trial, ...] = ()
        if enlarges:
            course.enter("enlarging")
            with watch.over("larger_batch_s"):
                larger = try_larger_batch(
                    lab,
                    described,
                    evidence,
                    floor,
                    60 * minutes,
                    journal,
                    learnt,
                    course.tell,
                )
        evidence = with_larger_batch(evidence, larger, watch.spent())

        write_outcome(out, evidence, described.schema, note)
        journal.end()
    write_report(out, evidence, warn)
    return evidence
