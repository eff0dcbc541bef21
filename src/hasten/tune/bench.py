"""Compare two plans of a task, and re-prove a recipe: the parts of a tuning, by themselves."""

from collections.abc import Callable
from pathlib import Path

from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.records.recipe import read_recipe
from hasten.records.report import BenchReport, ProofReport
from hasten.records.verdict import Decision, SpeedClaim
from hasten.stats.paired import SAME, Interval, decide
from hasten.tune.arms import find_arms, plan_of
from hasten.tune.conclude import conclude
from hasten.tune.confirm import claim_speed, confirm, measure_noise, noise_floor
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover

Tell = Callable[[str], None]


def bench(task: str, a: str, b: str, *, seed: int, tell: Tell) -> BenchReport:
    """Is ``b`` faster than ``a``?"""
    with Lab(task, seed) as lab:
        arms = find_arms(lab, a, b, tell)
        control = measure_noise(lab, arms.a, tell)
        floor = noise_floor(control)
        confirmation = confirm(lab, arms.a, arms.b, floor, tell)
    if confirmation.failure is not None:
        raise HastenError(
            f"{a} and {b} cannot be compared. {confirmation.failure}",
            fix="Bench each against itself to see which of them fails.",
        )
    speed = claim_speed(confirmation, floor)
    outcome = "undecided" if speed is None else decide_speed(speed)
    return BenchReport(
        task=task,
        a=a,
        b=b,
        plan_a=plan_of(arms.a),
        plan_b=plan_of(arms.b),
        verdict="not_proven" if speed is None else speed.verdict,
        outcome=outcome,
        regression=outcome == "slower",
        environment=arms.described.environment,
        control=control,
        confirmation=confirmation,
        speed=speed,
        batch_size=arms.described.traits.data.batch_size,
    )


def decide_speed(speed: SpeedClaim) -> Decision:
    """In the four words of a comparison. A difference lies beyond the noise; "same" is a claim
    too, however noisy the machine is."""
    if speed.verdict == "proven":
        return "faster"
    if speed.high < 1 / speed.noise_floor:
        return "slower"
    is_same = decide(Interval(speed.ratio, speed.low, speed.high), SAME) == "same"
    return "same" if is_same else "undecided"


def prove(
    task: str,
    path: Path,
    *,
    seed: int,
    tell: Tell,
    resume: bool = False,
    minutes: float = 10.0,
) -> ProofReport:
    """Measure and prove a recipe anew; with ``resume`` also that a stopped training goes on to the
    bit. ``minutes`` bounds what is trained to judge another precision. Where the recipe was made
    is reported and decides nothing."""
    recipe = read_recipe(path)
    plan = recipe.as_plan()
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe({str(path): plan})
        tell("proving that the training stays the same")
        prover = Prover(lab, described.traits, seed, described.offers)
        numerics = prove_plan(prover, lab, plan, described.rungs, 60 * minutes, tell)
        if resume and numerics.verdict == "proven":
            tell("proving that a stopped training goes on as if it had not been")
            numerics = numerics.with_check(prover.prove_resuming(plan))
        control = measure_noise(lab, NAIVE, tell)
        floor = noise_floor(control)
        confirmation = confirm(lab, NAIVE, plan, floor, tell)
    speed = claim_speed(confirmation, floor)
    _, verdict, why = conclude((), confirmation, speed, numerics)
    return ProofReport(
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
    )
