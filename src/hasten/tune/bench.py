"""Compare two plans of a task, and re-prove a recipe: the parts of a tuning, by themselves."""

from collections.abc import Callable
from pathlib import Path

from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.measure.messages import Described
from hasten.records.plan import NAIVE, Plan
from hasten.records.recipe import Recipe, other_machine, read_recipe
from hasten.records.record import unknown_name
from hasten.records.report import BenchReport, ProofReport
from hasten.tune.conclude import conclude
from hasten.tune.confirm import claim_speed, confirm, measure_noise, noise_floor
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover

Tell = Callable[[str], None]


def bench(task: str, a: str, b: str, *, seed: int, tell: Tell) -> BenchReport:
    """Is ``b`` faster than ``a``? Each is "naive", a level, one technique's name or the path of a
    recipe."""
    recipes = {name: read_recipe(Path(name)) for name in (a, b) if name.endswith(".toml")}
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe(*(recipe.as_plan() for recipe in recipes.values()))
        plan_a, plan_b = (_plan_named(name, described, recipes) for name in (a, b))
        _refuse_what_cannot_apply((a, b), described)
        control = measure_noise(lab, plan_a, tell)
        confirmation = confirm(lab, plan_a, plan_b, tell)
    speed = claim_speed(confirmation, noise_floor(control))
    slower = speed is not None and speed.high < 1 / speed.noise_floor
    return BenchReport(
        task=task,
        a=a,
        b=b,
        plan_a=plan_a,
        plan_b=plan_b,
        verdict="not_proven" if speed is None else speed.verdict,
        regression=slower,
        environment=described.environment,
        control=control,
        confirmation=confirmation,
        speed=speed,
    )


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
        described = lab.describe(plan)
        tell("proving that the training stays the same")
        prover = Prover(lab, described.traits, seed)
        numerics = prove_plan(prover, lab, plan, described.rungs, 60 * minutes, tell)
        if resume and numerics.verdict == "proven":
            tell("proving that a stopped training goes on as if it had not been")
            numerics = numerics.with_check(prover.prove_resuming(plan))
        control = measure_noise(lab, NAIVE, tell)
        confirmation = confirm(lab, NAIVE, plan, tell)
    speed = claim_speed(confirmation, noise_floor(control))
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


def _refuse_what_cannot_apply(arms: tuple[str, str], described: Described) -> None:
    """A technique named alone that has nothing to do: at once, not after a minute of measuring."""
    for offer in described.offers:
        if offer.technique in arms and offer.refusal is not None:
            raise HastenError(
                f"{offer.technique} cannot apply to this task here: {offer.refusal}.",
                fix="hasten env lists what this machine can do.",
            )


def _plan_named(name: str, described: Described, recipes: dict[str, Recipe]) -> Plan:
    if name in recipes:
        recipe = recipes[name]
        differences = described.environment.differences(recipe.environment)
        if differences:
            raise other_machine(name, differences)
        return recipe.as_plan()
    alone = {technique: Plan(parts={technique: {}}) for technique in described.rungs}
    plans = {"naive": NAIVE, **described.levels, **alone}
    if name not in plans:
        raise unknown_name("arm", name, [*plans, "a recipe.toml"])
    return plans[name]
