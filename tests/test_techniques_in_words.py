"""Techniques in words: nothing is left unsaid, and what is said holds."""

import enum
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.errors import HastenError
from hasten.explain import explain
from hasten.records.explanation import Explanation, Explanations
from hasten.records.fields import field_docs
from hasten.records.plan import Plan, Rung
from hasten.records.record import from_json, parse_toml, to_json
from hasten.techniques import registry
from hasten.techniques.registry import all_techniques, decode, recipe_schema, register_technique
from hasten.techniques.technique import Effect, Part, Stage, Technique
from specimens import ENVIRONMENT, TRAITS

ALL = explain().techniques
every_one = pytest.mark.parametrize("one", ALL, ids=lambda one: one.technique)


class Shade(enum.Enum):
    PALE = "pale"
    DARK = "dark"


class PaintPart(Part, frozen=True, kw_only=True):
    coats: Annotated[int, Meta(ge=1)] = 2
    """How often,
    at least once."""
    shade: Shade = Shade.PALE
    glossy: bool = False
    """Whether it shines."""
    share: float = 0.5
    note: str = ""
    places: list[int] = msgspec.field(default_factory=lambda: [1, 2])


class Paint(Technique[PaintPart]):
    name = "paint"
    part = PaintPart
    stage = Stage.LAYOUT
    rung = Rung.BITWISE
    answers = ()
    about = "Paints the model."
    instead_of = ("compile",)

    def to_try(self, environment: Any, traits: Any) -> list[PaintPart]:
        return [PaintPart()]

    def apply(self, pipeline: Any, part: PaintPart) -> Effect:
        return Effect(why="painted", undo=lambda: None)


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> Explanation:
    monkeypatch.setattr(registry, "_techniques", dict(registry._techniques))
    register_technique(Paint)
    return explain("paint").techniques[0]


@every_one
def test_a_bundled_technique_leaves_nothing_unsaid(one: Explanation) -> None:
    for text in (one.about, one.helps, one.costs, one.limits, one.needs):
        assert text.endswith(".")
    assert one.rung_means
    for setting in one.settings:
        assert setting.takes
        assert setting.about.endswith("."), f"{one.technique}.{setting.name} has no line under it"


def test_all_are_explained_in_the_order_in_which_they_compose() -> None:
    assert [one.technique for one in ALL] == [each.name for each in all_techniques()]


@every_one
def test_what_switches_it_on_in_a_recipe_does(one: Explanation) -> None:
    raw = parse_toml(one.recipe, where="recipe.toml")
    ((technique, part),) = decode(Plan(parts=raw["plan"]))
    assert technique.name == one.technique
    assert part == technique.part()


@every_one
def test_what_asks_for_it_in_python_does(one: Explanation) -> None:
    wish = eval(one.wish, {"Plan": Plan, "PerformanceConfig": PerformanceConfig})
    plan = wish if isinstance(wish, Plan) else wish.resolve(ENVIRONMENT, TRAITS)
    assert one.technique in plan.parts
    assert len(decode(plan)) == len(plan.parts)


@every_one
def test_the_level_is_the_first_that_may_choose_it(
    one: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine and a task where everything applies, and nothing leaves it nothing to do."""
    monkeypatch.setattr("hasten.config.refusal", lambda *_: None)
    for each in all_techniques():
        monkeypatch.setattr(type(each), "instead_of", ())
    chosen = [
        level.value
        for level in OptimizationLevel
        if one.technique
        in PerformanceConfig(optimization_level=level).resolve(ENVIRONMENT, TRAITS).parts
    ]
    assert (chosen[0] if chosen else None) == one.level


def test_what_replaces_and_what_gives_way_are_two_sides_of_one_thing() -> None:
    found = {one.technique: one for one in ALL}
    pairs = {(one.technique, other) for one in ALL for other in one.instead_of}
    assert pairs == {(other, one.technique) for one in ALL for other in one.gives_way_to}
    assert ("resident_data", "batched_loader") in pairs
    assert found["loader_workers"].gives_way_to


def test_every_rung_has_a_meaning_of_its_own() -> None:
    assert len({rung.meaning() for rung in Rung}) == len(Rung)


def test_settings_are_told_by_type_default_and_the_line_under_them(painted: Explanation) -> None:
    told = [(each.name, each.takes, each.default, each.about) for each in painted.settings]
    assert told == [
        ("coats", "a whole number, 1 or more", 2, "How often, at least once."),
        ("shade", '"pale" or "dark"', "pale", ""),
        ("glossy", "true or false", False, "Whether it shines."),
        ("share", "a number", 0.5, ""),
        ("note", "text", "", ""),
        ("places", "a list (a whole number each)", [1, 2], ""),
    ]


def test_values_are_told_in_the_order_of_the_technique() -> None:
    (compiling,) = explain("compile").techniques
    assert compiling.settings[1].takes == '"whole" or "with_loss" or "blocks"'


def test_a_technique_of_ones_own_that_says_little_is_explained_too(painted: Explanation) -> None:
    assert (painted.helps, painted.costs, painted.limits, painted.needs) == ("", "", "", "")
    assert painted.level == "basic"
    assert painted.wish == "Plan(parts={'paint': {}})"
    assert explain("compile").techniques[0].gives_way_to == ("paint",)


def test_the_lines_under_the_fields_are_in_the_schema_of_a_recipe(painted: Explanation) -> None:
    parts = recipe_schema()["$defs"]["Recipe"]["properties"]["plan"]["properties"]
    assert parts["paint"]["properties"]["glossy"]["description"] == "Whether it shines."
    assert "description" not in parts["paint"]["properties"]["note"]


def test_a_class_without_source_has_no_lines() -> None:
    space: dict[str, Any] = {"Part": Part}
    exec("class Typed(Part):\n    a: int = 1\n    '''Here.'''\n", space)
    assert field_docs(space["Typed"]) == {}


def test_an_unknown_technique_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(HastenError) as refusal:
        explain("compil")
    assert str(refusal.value) == "technique or rule 'compil' is not known. Did you mean 'compile'?"


def test_explanations_come_back_from_json_as_they_were() -> None:
    found = explain()
    assert from_json(to_json(found), Explanations, where="explain") == found
