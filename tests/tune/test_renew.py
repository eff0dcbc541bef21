"""A plan that was edited and is proven claims what was proven; no other is touched."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from hasten.records.plan import Rung
from hasten.records.recipe import Recipe, read_recipe
from hasten.records.record import digest_of
from hasten.records.report import ProofReport
from hasten.records.target import ChangedTraining
from hasten.tune.files import recipe_text
from hasten.tune.renew import renew
from specimens import NUMERICS, PROOF, RECIPE, SPEED

CHANGED = ChangedTraining(
    technique="batch_size",
    changes="512 rows a step instead of 64",
    verdict="proven",
    times_as_soon=2.9,
    low=2.1,
    high=4.0,
)
EDITED = replace(RECIPE, plan_sha256="d" * 64, changes_training=CHANGED)
PROVEN = replace(
    PROOF, speed=replace(SPEED, ratio=2.0), numerics=replace(NUMERICS, rung=Rung.BITWISE)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


def test_what_was_proven_is_claimed_and_the_file_as_it_was_is_kept(path: Path) -> None:
    path.write_text(before := f"# a word of mine\n{recipe_text(EDITED)}")
    notes: list[str] = []
    renew(path, EDITED, PROVEN, notes.append, pytest.fail)
    found = read_recipe(path)
    assert not found.is_edited()
    assert found.plan_sha256 == digest_of(RECIPE.as_plan())
    assert found.speed is not None
    assert found.numerics is not None
    assert (found.speed.ratio, found.speed.rows_per_s, found.numerics.rung) == (
        2.0,
        15_000.0,
        Rung.BITWISE,
    )
    assert found.renewed
    assert found.changes_training is None, "that part was taken out, else it is not proven"
    assert (found.task, found.plan, found.evidence_sha256) == (
        EDITED.task,
        EDITED.plan,
        EDITED.evidence_sha256,
    )
    assert "hasten prove has proven what is claimed here" in path.read_text()
    assert path.with_name("mine.edited.toml").read_text() == before
    (note,) = notes
    assert f"{path} was edited, and claims now what was proven" in note


@pytest.mark.parametrize(
    ("recipe", "proof"),
    [
        (EDITED, replace(PROVEN, verdict="refuted")),
        (EDITED, replace(PROVEN, verdict="not_proven", speed=None)),
        (EDITED, replace(PROVEN, task="other.py:make_task")),
        (EDITED, replace(PROVEN, differences=("cpu: Old, here New",))),
        (RECIPE, PROVEN),
        (replace(RECIPE, plan_sha256=digest_of(RECIPE.as_plan())), PROVEN),
    ],
    ids=["refuted", "not proven", "another task", "another machine", "does not say", "not edited"],
)
def test_no_other_recipe_is_touched(path: Path, recipe: Recipe, proof: ProofReport) -> None:
    path.write_text(text := recipe_text(recipe))
    renew(path, recipe, proof, pytest.fail, pytest.fail)
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_that_was_changed_meanwhile_is_left_alone(path: Path) -> None:
    path.write_text(text := recipe_text(replace(EDITED, plan={})))
    said: list[str] = []
    renew(path, EDITED, PROVEN, pytest.fail, said.append)
    assert path.read_text() == text
    assert "was changed while it was proven. Prove it again." in said[0]


def test_a_disk_that_is_full_costs_the_verdict_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path.write_text(text := recipe_text(EDITED))
    monkeypatch.setattr(os, "fsync", fail)
    said: list[str] = []
    renew(path, EDITED, PROVEN, pytest.fail, said.append)
    assert path.read_text() == text
    assert "could not be renewed: [Errno 28] No space left" in said[0]
