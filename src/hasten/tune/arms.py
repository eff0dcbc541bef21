"""The arms of a comparison by their names."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hasten.errors import HastenError
from hasten.measure.lab import Lab, Subject
from hasten.measure.messages import Described
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.recipe import Recipe, other_machine, read_recipe
from hasten.records.record import unknown_name
from hasten.records.saved_bench import REFERENCE_ARM
from hasten.task.names import refuse_unknown

REFERENCE_TASK = "hasten.measure.reference:make_task"


@dataclass(frozen=True)
class Arms:
    described: Described
    """Of the task itself."""
    a: Plan | Subject
    b: Plan | Subject


def find_arms(lab: Lab, a: str, b: str, tell: Callable[[str], None]) -> Arms:
    """Each is "naive", a level, a technique, the path of a recipe, or a whole task by its name."""
    recipes = {name: read_recipe(Path(name)) for name in (a, b) if name.endswith(".toml")}
    for name in (a, b):
        if ":" in name and name not in recipes:
            refuse_unknown(name)
    tell(f"building {lab.task} and running one step")
    described = lab.describe({name: recipe.as_plan() for name, recipe in recipes.items()})
    found = [_arm_named(name, described, recipes) for name in (a, b)]
    _refuse_what_cannot_apply((a, b), described)
    for name, arm in zip((a, b), found, strict=True):
        _refuse_another_training(name, plan_of(arm), described)
    for arm in found:
        if isinstance(arm, Subject) and arm.task not in (lab.task, REFERENCE_TASK):
            tell(f"building {arm} and running one step")
            lab.describe(task=arm.task)
    return Arms(described, *found)


def plan_of(arm: Plan | Subject) -> Plan:
    return arm.plan if isinstance(arm, Subject) else arm


def _arm_named(name: str, described: Described, recipes: dict[str, Recipe]) -> Plan | Subject:
    if name in recipes:
        recipe = recipes[name]
        differences = described.environment.differences(recipe.environment)
        if differences:
            raise other_machine(name, differences)
        return recipe.as_plan()
    if name == REFERENCE_ARM:
        return Subject(REFERENCE_TASK)
    if ":" in name:
        return Subject(name)
    alone = {technique: Plan(parts={technique: {}}) for technique in described.rungs}
    plans = {"naive": NAIVE, **described.levels, **alone}
    if name not in plans:
        raise unknown_name("arm", name, [*plans, "a recipe.toml", "another TASK"])
    return plans[name]


def _refuse_another_training(name: str, plan: Plan, described: Described) -> None:
    for technique in plan.parts:
        if described.rungs[technique] is Rung.CHANGES_TRAINING:
            raise HastenError(
                f"{name} is another training by {technique}: its speed says nothing of its worth.",
                fix="Bench it without that part. A larger batch is judged by"
                " hasten tune TASK --allow batch-size.",
            )


def _refuse_what_cannot_apply(arms: tuple[str, str], described: Described) -> None:
    """A technique named alone that has nothing to do: at once, not after a minute of measuring."""
    for offer in described.offers:
        if offer.technique in arms and offer.refusal is not None:
            raise HastenError(
                f"{offer.technique} cannot apply to this task here: {offer.refusal}.",
                fix="hasten env lists what this machine can do.",
            )
