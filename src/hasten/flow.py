"""The story: a task becomes a proven recipe.

    task -> measure -> diagnose -> propose -> search -> confirm -> prove -> recipe

Read this first. There is no logic here, only the chain; each call leads to the room that has it.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from hasten import __version__
from hasten.diagnose.diagnose import diagnose
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.records.recipe import RECIPE_FORMAT, Evidence
from hasten.tune.conclude import conclude
from hasten.tune.confirm import claim_speed, confirm, measure_noise, noise_floor
from hasten.tune.files import Journal, write_outcome
from hasten.tune.propose import propose
from hasten.tune.prove import Prover
from hasten.tune.search import Search


def tune(
    task: str,
    *,
    out: Path,
    minutes: float = 10.0,
    seed: int = 0,
    tell: Callable[[str], None] = lambda message: None,
) -> Evidence:
    """Find what makes ``task`` faster, prove it, and write the recipe into ``out``.

    ``minutes`` bounds the search; confirming and proving what it found comes on top. ``tell`` is
    called with a line for each thing that is begun.
    """
    began = time.monotonic()
    journal = Journal(out)
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe()
        journal.note(described.environment)

        naive = lab.profile(NAIVE, tell)
        findings = diagnose(
            naive,
            described.traits.model,
            described.environment.device,
            task_place=described.task_place,
            model_place=described.model_place,
        ).findings
        for finding in findings:
            journal.note(finding)

        control = measure_noise(lab, NAIVE, tell)
        journal.note(control)
        floor = noise_floor(control)

        candidates, not_tried = propose(findings, described.offers, floor)
        prover = Prover(lab, described.traits, seed)
        search = Search(lab, prover, journal.note, deadline=began + 60 * minutes)
        search.record(*not_tried)
        search.run(candidates, tell)

        speed, numerics, confirmation = None, None, None
        if search.plan != NAIVE:
            confirmation = confirm(lab, NAIVE, search.plan, floor, tell)
            speed = claim_speed(confirmation, floor)
            tell("proving that the training stays the same, from another seed")
            fresh = Prover(lab, described.traits, seed + 1)
            numerics = fresh.prove(search.plan, search.rung, check_data=search.changes_data)

    outcome, verdict, why = conclude(search.trials, confirmation, speed, numerics)
    evidence = Evidence(
        format=RECIPE_FORMAT,
        task=task,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        hasten=__version__,
        outcome=outcome,
        verdict=verdict,
        why=why,
        seed=seed,
        environment=described.environment,
        traits=described.traits,
        naive=naive.measurement,
        findings=findings,
        control=control,
        trials=tuple(search.trials),
        plan=search.plan,
        confirmation=confirmation,
        speed=speed,
        numerics=numerics,
        elapsed_s=time.monotonic() - began,
    )
    write_outcome(out, evidence, described.schema)
    return evidence
