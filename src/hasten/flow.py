"""The story: a task becomes a proven recipe.

    task -> measure -> diagnose -> propose -> search -> confirm -> prove -> recipe

Read this first. There is no logic here, only the chain; each call leads to the room that has it.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from hasten.records.progress import Doing
from hasten.records.recipe import Evidence
from hasten.records.target import Allowed
from hasten.records.tuning import FASTER, Aim
from hasten.tune.files import write_report
from hasten.tune.tuning import Tuning


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
    with Tuning(
        task, out=out, minutes=minutes, seed=seed, aim=aim, allow=allow, tell=tell, note=note
    ) as tuning:
        tuning.measure()
        evidence = tuning.prove_again()
        if evidence is None:
            findings = tuning.diagnose()
            search = tuning.search(findings)
            settled = tuning.settle(search)
            evidence = tuning.conclude(search, settled)
        evidence = tuning.enlarge(evidence)
        tuning.write(evidence)
    write_report(out, evidence, warn)
    return evidence
