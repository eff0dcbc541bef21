"""Does a recipe hold, here and now? It is held to what it was made for."""

from collections.abc import Callable
from pathlib import Path

from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.records.recipe import read_recipe
from hasten.records.report import ProofReport
from hasten.tune.conclude import conclude
from hasten.tune.confirm import claim_memory, claim_speed, confirm, measure_noise, noise_floor
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover
from hasten.tune.renew import renew


def prove(
    task: str,
    path: Path,
    *,
    seed: int,
    tell: Callable[[str], None],
    resume: bool = False,
    minutes: float = 10.0,
    note: Callable[[str], None] = lambda message: None,
    warn: Callable[[str], None] = lambda message: None,
) -> ProofReport:
    """Measure and prove anew what a recipe claims; with ``resume`` also that a stopped training
    goes on to the bit. ``minutes`` bounds what is trained to judge another precision. Where the
    recipe was made is reported and decides nothing. A plan that was edited and is proven has its
    claims renewed: ``note`` is called with that, ``warn`` where it cannot be written down."""
    recipe = read_recipe(path)
    plan = recipe.as_plan()
    if recipe.task != task:
        note(f"{path} was made of {recipe.task}: what it claims of that is not what is proven here")
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe({str(path): plan})
        tell("proving that the training stays the same")
        prover = Prover(lab, described.traits, seed, described.offers)
        numerics = prove_plan(prover, lab, plan, described.rungs, 60 * minutes, tell)
        if resume and numerics.verdict == "proven":
            tell("proving that a stopped training goes on as if it had not been")
            numerics = numerics.with_check(prover.prove_resuming(plan))
        prover.forget()  # what is timed is to have the memory
        control = measure_noise(lab, NAIVE, tell)
        floor = noise_floor(control)
        confirmation = confirm(lab, NAIVE, plan, floor, tell)
        memory = claim_memory(lab, plan, recipe.aim)
    speed = claim_speed(confirmation, floor)
    _, verdict, why = conclude((), confirmation, speed, numerics, memory, recipe.aim)
    report = ProofReport(
        task=task,
        recipe=str(path),
        verdict=verdict,
        why=why,
        environment=described.environment,
        differences=tuple(described.environment.differences(recipe.environment)),
        control=control,
        confirmation=confirmation,
        speed=speed,
        numerics=numerics,
        memory=memory,
    )
    renew(path, recipe, report, note, warn)
    return report
