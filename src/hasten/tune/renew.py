"""A recipe whose plan was edited by hand, and which is proven, claims what was proven."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.host.files import write_atomically
from hasten.records.recipe import Recipe, read_recipe
from hasten.records.record import digest_of
from hasten.records.report import ProofReport
from hasten.tune.files import claimed_numerics, claimed_speed, recipe_text


def renew(
    path: Path,
    recipe: Recipe,
    proof: ProofReport,
    note: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Nothing is written for another task or machine than the recipe's own, which its claims are
    not of. The file as it was is kept aside; one that cannot be written costs no verdict."""
    here = proof.task == recipe.task and not proof.differences
    if proof.verdict != "proven" or not recipe.is_edited() or not here:
        return
    aside = path.with_suffix(".edited.toml")
    try:
        if read_recipe(path) != recipe:
            raise HastenError("It was changed while it was proven.", fix="Prove it again.")
        write_atomically(aside, path.read_bytes())
        write_atomically(path, recipe_text(_renewed(recipe, proof)).encode())
    except (OSError, HastenError) as error:
        warn(f"what {path} claims could not be renewed: {error}")
    else:
        note(f"{path} was edited, and claims now what was proven; as it was, it is {aside}")


def _renewed(recipe: Recipe, proof: ProofReport) -> Recipe:
    assert proof.speed is not None  # else nothing is proven
    return replace(
        recipe,
        plan_sha256=digest_of(recipe.as_plan()),
        renewed=datetime.now(UTC).isoformat(timespec="seconds"),
        changes_training=None,  # what changes it is nothing that a proof proves
        speed=claimed_speed(proof.speed),
        numerics=claimed_numerics(proof.numerics),
        memory=proof.memory,
    )
