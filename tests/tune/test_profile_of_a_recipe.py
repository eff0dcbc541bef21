"""A profile of a plan whose technique has nothing to do says so."""

from pathlib import Path

import pytest

from hasten.host.environment import read_environment
from hasten.records.plan import Rung
from hasten.records.recipe import RECIPE_FORMAT, Recipe, RecipeNumerics, RecipeSpeed
from hasten.tune.files import recipe_text
from hasten.tune.profile import profile

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"


def test_a_recipe_is_profiled_with_what_did_not_apply_in_the_notes(tmp_path: Path) -> None:
    recipe = Recipe(
        format=RECIPE_FORMAT,
        task="planted",
        created="2026-01-01T00:00:00+00:00",
        hasten="0",
        evidence_sha256="0" * 64,
        plan={"whole_step_graph": {}},
        speed=RecipeSpeed(verdict="proven", ratio=1.1, low=1.05, high=1.15),
        numerics=RecipeNumerics(verdict="proven", rung=Rung.BITWISE),
        environment=read_environment(),
    )
    path = tmp_path / "recipe.toml"
    path.write_text(recipe_text(recipe))
    told: list[str] = []
    report = profile(f"{PLANTED}:small", recipe=path, trace=None, seed=0, tell=told.append)
    assert report.plan == recipe.as_plan()
    if report.environment.device.kind != "cpu":
        pytest.skip("a captured step applies on a device")
    assert any(note.startswith("whole_step_graph: skipped") for note in report.notes)
    assert not any("hasten tune" in each for each in report.next)
    assert report.memory is not None
    assert report.launches is not None
    assert "following the memory of a step" in told
