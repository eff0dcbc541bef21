"""The files that a tuning comes to: recipe, evidence, and the evidence as a page."""

import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from jinja2 import TemplateError

from hasten import __version__
from hasten.errors import HastenError, in_a_line
from hasten.host.files import write_atomically
from hasten.records.recipe import (
    RECIPE_FORMAT,
    Evidence,
    Recipe,
    RecipeNumerics,
    RecipeSpeed,
    read_recipe,
)
from hasten.records.record import digest_of, to_json, to_toml
from hasten.records.target import ChangedTraining
from hasten.records.verdict import NumericsClaim, SpeedClaim
from hasten.report.markdown import tune_markdown
from hasten.report.page import tune_page

RECIPE = "recipe.toml"
PREVIOUS = "recipe.previous.toml"
EVIDENCE = "evidence.json"
PREVIOUS_EVIDENCE = "evidence.previous.json"
SCHEMA = "recipe.schema.json"
PAGE = "report.html"
MARKDOWN = "report.md"


UNSHOWN = (OSError, TemplateError, ArithmeticError, LookupError, TypeError, ValueError)
"""What a full disk raises, and rendering where a record holds what nobody thought of."""


def write_outcome(
    folder: Path,
    evidence: Evidence,
    schema: bytes,
    note: Callable[[str], None] = lambda message: None,
) -> None:
    """Evidence before the recipe: a recipe that is there is whole. An old one is kept aside, with
    its evidence, since it may have been edited, be of another task, or be all that there is, and
    the last two are noted; an old report is of other evidence, and goes."""
    with writing_into(folder):
        folder.mkdir(parents=True, exist_ok=True)
        recipe = folder / RECIPE
        kept = _keep_aside(folder, evidence) if recipe.exists() else ""
        content = to_json(evidence)
        write_atomically(folder / EVIDENCE, content)
        for name in (PAGE, MARKDOWN):
            (folder / name).unlink(missing_ok=True)
        if evidence.outcome != "recipe":
            recipe.unlink(missing_ok=True)
        else:
            write_atomically(folder / SCHEMA, msgspec.json.format(schema, indent=1))
            text = recipe_text(make_recipe(evidence, hashlib.sha256(content).hexdigest()))
            write_atomically(recipe, text.encode())
        if kept:
            note(kept)


def _keep_aside(folder: Path, evidence: Evidence) -> str:
    """As copies, so that nothing is lost if the disk is full; the evidence where it is the recipe's
    own. Says what a user would miss."""
    recipe, aside, before = folder / RECIPE, folder / PREVIOUS, folder / EVIDENCE
    content = before.read_bytes() if before.exists() else b""
    try:
        read = read_recipe(recipe)
        other, is_its_own = read.task, read.evidence_sha256 == hashlib.sha256(content).hexdigest()
    except HastenError:
        other, is_its_own = "what cannot be read", bool(content)
    write_atomically(aside, recipe.read_bytes())
    if is_its_own:
        write_atomically(folder / PREVIOUS_EVIDENCE, content)
    if other != evidence.task:
        return f"{recipe} was of {other}: it is {aside} now"
    return "" if evidence.outcome == "recipe" else f"no recipe now; the earlier one is {aside}"


def write_report(folder: Path, evidence: Evidence, warn: Callable[[str], None]) -> None:
    """The evidence as a page and as Markdown, after all that matters is on the disk: one that
    cannot be made is said, and costs neither recipe nor verdict."""
    for name, render in ((PAGE, tune_page), (MARKDOWN, tune_markdown)):
        try:
            write_atomically(folder / name, render(evidence, str(folder)).encode())
        except UNSHOWN as error:
            why = f"{type(error).__name__}: {in_a_line(str(error))}"
            warn(f"{folder / name} could not be made ({why}); {EVIDENCE} has all that it shows")


def make_recipe(evidence: Evidence, evidence_sha256: str) -> Recipe:
    speed, numerics = evidence.speed, evidence.numerics
    if (speed is None or numerics is None) and evidence.sooner() is None:
        raise AssertionError("a recipe is made of two claims, or of one on time to target")
    return Recipe(
        format=RECIPE_FORMAT,
        task=evidence.task,
        created=evidence.created,
        hasten=__version__,
        evidence_sha256=evidence_sha256,
        plan_sha256=digest_of(evidence.whole_plan()),
        aim=evidence.aim,
        plan=evidence.whole_plan().parts,
        changes_training=_changed(evidence),
        speed=None if speed is None else claimed_speed(speed),
        numerics=None if numerics is None else claimed_numerics(numerics),
        memory=evidence.memory,
        environment=evidence.environment,
    )


def claimed_speed(speed: SpeedClaim) -> RecipeSpeed:
    return RecipeSpeed(
        verdict=speed.verdict,
        ratio=round(speed.ratio, 4),
        low=round(speed.low, 4),
        high=round(speed.high, 4),
        rows_per_s=round(speed.b_rows_per_s, 4),
    )


def claimed_numerics(numerics: NumericsClaim) -> RecipeNumerics:
    return RecipeNumerics(verdict=numerics.verdict, rung=numerics.rung)


def _changed(evidence: Evidence) -> ChangedTraining | None:
    trial, claim = evidence.changed(), evidence.sooner()
    if trial is None or claim is None:
        return None
    return ChangedTraining(
        technique=trial.candidate.technique,
        changes=claim.changes,
        verdict=claim.verdict,
        times_as_soon=round(claim.ratio, 4),
        low=round(claim.low, 4),
        high=round(claim.high, 4),
    )


def recipe_text(recipe: Recipe) -> str:
    head = f"#:schema ./{SCHEMA}\n# Made by hasten tune; the evidence is in {EVIDENCE}.\n"
    if recipe.renewed is not None:
        head += "# The plan was edited since, and hasten prove has proven what is claimed here.\n"
    changed = recipe.changes_training
    if changed is not None:
        head += f"# It changes the training: {changed.changes}.\n"
        head += f"# Without [plan.{changed.technique}] it is the training as it was.\n"
    return f"{head}\n{to_toml(recipe)}"


def refuse_unusable(folder: Path) -> None:
    """Asked before anything is measured, so that no work is lost for want of a place."""
    with writing_into(folder):
        above = (folder, *folder.absolute().parents)
        missing = list(itertools.takewhile(lambda each: not each.exists(), above))
        existing = above[len(missing)]
        if not existing.is_dir():
            raise NotADirectoryError(f"{existing} is not a folder")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(f"{existing} is not writable")
        _try_out(folder, missing)


def _try_out(folder: Path, missing: list[Path]) -> None:
    """As a file there would be made; nothing is left of it, nor of folders that were ``missing``.
    Some file systems allow everything, and then do nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"no file can be made there ({error.strerror})") from error
    finally:
        for each in missing:
            with suppress(OSError):  # it could not be made; or another has put something there
                each.rmdir()


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HastenError(f"--out {folder}: {error}.", fix="Name another folder.") from error
