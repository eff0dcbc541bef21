"""The files that a tuning comes to: recipe, evidence, and the evidence as a page."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hasten import __version__
from hasten.errors import HastenError
from hasten.host.files import write_atomically
from hasten.records.recipe import (
    RECIPE_FORMAT,
    Evidence,
    Recipe,
    RecipeNumerics,
    RecipeSpeed,
)
from hasten.records.record import to_json, to_toml
from hasten.report.markdown import tune_markdown
from hasten.report.page import tune_page

RECIPE = "recipe.toml"
PREVIOUS = "recipe.previous.toml"
EVIDENCE = "evidence.json"
SCHEMA = "recipe.schema.json"
PAGE = "report.html"
MARKDOWN = "report.md"


def write_outcome(folder: Path, evidence: Evidence, schema: bytes) -> None:
    """Evidence first and recipe last: a recipe that is there is whole. An old one is kept aside,
    since it may have been edited."""
    with writing_into(folder):
        folder.mkdir(parents=True, exist_ok=True)
        recipe = folder / RECIPE
        if recipe.exists():
            recipe.replace(folder / PREVIOUS)
        content = to_json(evidence)
        write_atomically(folder / EVIDENCE, content)
        write_atomically(folder / PAGE, tune_page(evidence, str(folder)).encode())
        write_atomically(folder / MARKDOWN, tune_markdown(evidence, str(folder)).encode())
        if evidence.outcome == "recipe":
            write_atomically(folder / SCHEMA, msgspec.json.format(schema, indent=1))
            text = recipe_text(make_recipe(evidence, hashlib.sha256(content).hexdigest()))
            write_atomically(recipe, text.encode())


def make_recipe(evidence: Evidence, evidence_sha256: str) -> Recipe:
    if evidence.speed is None or evidence.numerics is None:
        raise AssertionError("a recipe is made of two claims")
    return Recipe(
        format=RECIPE_FORMAT,
        task=evidence.task,
        created=evidence.created,
        hasten=__version__,
        evidence_sha256=evidence_sha256,
        plan=evidence.plan.parts,
        speed=RecipeSpeed(
            verdict=evidence.speed.verdict,
            ratio=round(evidence.speed.ratio, 4),
            low=round(evidence.speed.low, 4),
            high=round(evidence.speed.high, 4),
            rows_per_s=round(evidence.speed.b_rows_per_s, 4),
        ),
        numerics=RecipeNumerics(verdict=evidence.numerics.verdict, rung=evidence.numerics.rung),
        environment=evidence.environment,
    )


def recipe_text(recipe: Recipe) -> str:
    head = f"#:schema ./{SCHEMA}\n# Made by hasten tune; the evidence is in {EVIDENCE}.\n\n"
    return head + to_toml(recipe)


def refuse_unusable(folder: Path) -> None:
    """Asked before anything is measured, so that no work is lost for want of a place."""
    with writing_into(folder):
        existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not existing.is_dir():
            raise NotADirectoryError(f"{existing} is not a folder")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(f"{existing} is not writable")


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HastenError(f"--out {folder}: {error}.", fix="Name another folder.") from error
