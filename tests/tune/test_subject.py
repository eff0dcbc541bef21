"""A recipe is proven again where it was made of the same subject, and of no other."""

from pathlib import Path

import msgspec
import pytest

from hasten.records.tuning import Aim, Subject
from hasten.techniques.registry import recipe_schema
from hasten.tune.files import RECIPE, write_outcome
from hasten.tune.subject import earlier_recipe, earlier_tuning
from specimens import ENVIRONMENT, PROVEN, TRAITS, UNPROVEN

replace = msgspec.structs.replace
SUBJECT = Subject(
    task=PROVEN.task,
    seed=PROVEN.seed,
    hasten="0.1.0",
    environment=ENVIRONMENT,
    traits=TRAITS,
    sources={"train.py": "d" * 64},
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    evidence = replace(PROVEN, subject=SUBJECT.digest())
    write_outcome(tmp_path, evidence, msgspec.json.encode(recipe_schema()))
    assert earlier_recipe(tmp_path, SUBJECT) == evidence
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        {"environment": replace(ENVIRONMENT, versions={"torch": "2.11.0"})},
        {"environment": replace(ENVIRONMENT, device=replace(ENVIRONMENT.device, name="another"))},
        {"traits": replace(TRAITS, model=replace(TRAITS.model, parameters=1))},
        {"sources": {"train.py": "e" * 64}},
        {"aim": Aim(goal="memory")},
    ],
    ids=["torch", "device", "model", "source", "aim"],
)
def test_fault_20_a_recipe_of_another_is_not_taken(out: Path, change: dict[str, object]) -> None:
    assert earlier_recipe(out, replace(SUBJECT, **change)) is None
    assert earlier_tuning(out, replace(SUBJECT, **change)) is None


def test_a_recipe_that_was_edited_is_not_taken_for_a_proven_one(out: Path) -> None:
    text = (out / RECIPE).read_text()
    (out / RECIPE).write_text(text.replace("evidence_sha256 = ", "evidence_sha256 = 'x' #", 1))
    assert earlier_recipe(out, SUBJECT) is None


def test_what_was_learnt_is_there_without_a_recipe_too(tmp_path: Path) -> None:
    """With more time the search goes on from it."""
    evidence = replace(UNPROVEN, subject=SUBJECT.digest())
    write_outcome(tmp_path, evidence, msgspec.json.encode(recipe_schema()))
    assert earlier_tuning(tmp_path, SUBJECT) == evidence
    assert earlier_recipe(tmp_path, SUBJECT) is None
