"""``hasten prove`` holds a recipe to what it was made for, and renews one that was edited."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from hasten.host.environment import read_environment
from hasten.records.plan import RawPart
from hasten.records.recipe import Recipe, read_recipe
from hasten.records.tuning import Aim
from hasten.tune.files import recipe_text
from hasten.tune.prove_recipe import prove
from quick import shorten
from specimens import RECIPE

TASK = f"{Path(__file__).parents[1] / 'tasks/planted.py'}:slow_loader"
PIECES: dict[str, RawPart] = {"gradient_accumulation": {"steps": 4}}
"""Slower, and smaller."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)


def write(folder: Path, **changes: object) -> Path:
    recipe: Recipe = replace(RECIPE, task=TASK, environment=read_environment(), **changes)
    path = folder / "recipe.toml"
    path.write_text(recipe_text(recipe))
    return path


@pytest.mark.parametrize(
    ("aim", "verdict", "why"),
    [
        (Aim(goal="memory"), "proven", "smaller in fresh processes, and the same training"),
        (Aim(memory_bytes=64), "refuted", "its peak is"),
    ],
)
def test_a_recipe_is_held_to_its_aim(tmp_path: Path, aim: Aim, verdict: str, why: str) -> None:
    path = write(tmp_path, plan=PIECES, aim=aim, plan_sha256="d" * 64)
    notes: list[str] = []
    report = prove(TASK, path, seed=0, tell=lambda words: None, note=notes.append)
    assert (report.verdict, report.why[: len(why)]) == (verdict, why)
    assert not [each for each in notes if "was made of" in each]
    assert report.memory is not None
    assert report.memory.b_bytes < report.memory.a_bytes
    assert read_recipe(path).is_edited() == (verdict == "refuted"), "only a proof renews it"


class NotedError(Exception):
    pass


def test_a_recipe_of_another_task_is_said_to_be_before_anything_is_run(tmp_path: Path) -> None:
    path = write(tmp_path, plan=PIECES)
    noted: list[str] = []

    def note(words: str) -> None:
        noted.append(words)
        raise NotedError

    with pytest.raises(NotedError):
        prove("another.py:task", path, seed=0, tell=lambda words: None, note=note)
    assert noted == [
        f"{path} was made of {TASK}: what it claims of that is not what is proven here"
    ]
