"""The registry: a technique of the user's own is treated just as the bundled ones."""

import enum
from typing import Any, ClassVar

import jsonschema
import msgspec
import pytest
import torch
from torch.nn import functional as F

from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.environment import Environment
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.traits import Traits
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques import registry
from hasten.techniques.registry import (
    BUNDLED,
    all_techniques,
    decode,
    get_technique,
    offers,
    recipe_schema,
    register_technique,
)
from hasten.techniques.technique import Effect, Part, Stage, Technique
from plain_loop import make_loader, make_model


@pytest.fixture(autouse=True)
def _forget_what_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_techniques", dict(registry._techniques))


class Way(enum.Enum):
    SOFT = "soft"
    HARD = "hard"


class PolishPart(Part, frozen=True, kw_only=True):
    strength: int = 1
    way: Way = Way.SOFT


class Polish(Technique[PolishPart]):
    """Notes on the pipeline's clip norm that it was here."""

    name = "polish"
    part = PolishPart
    stage = Stage.LAYOUT
    rung = Rung.BITWISE
    answers = ("eager-model",)
    about = "Polishes the model."
    refusals: ClassVar[dict[str, str | None]] = {"machine": None, "task": None}

    def unavailable(self, environment: Environment) -> str | None:
        return self.refusals["machine"]

    def unsuited(self, traits: Traits) -> str | None:
        return self.refusals["task"]

    def to_try(self, environment: Environment, traits: Traits) -> list[PolishPart]:
        return [PolishPart(strength=2), PolishPart(strength=3)]

    def apply(self, pipeline: Pipeline, part: PolishPart) -> Effect:
        pipeline.clip_norm = float(part.strength)

        def undo() -> None:
            pipeline.clip_norm = None

        return Effect(why=f"polished {part.strength} times", undo=undo)


def make_pipeline() -> Pipeline:
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    return Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy)


def here() -> tuple[Environment, Traits]:
    return read_environment(), read_traits(make_pipeline())


def test_a_technique_of_ones_own_is_offered_like_the_others() -> None:
    register_technique(Polish)
    found = {each.technique: each for each in offers(*here())}
    assert set(found) == {*(each.name for each in BUNDLED), "polish"}
    offer = found["polish"]
    assert offer.parts == ({"strength": 2, "way": "soft"}, {"strength": 3, "way": "soft"})
    assert (offer.rung, offer.answers, offer.refusal) == (Rung.BITWISE, ("eager-model",), None)
    assert not offer.changes_data
    assert found["batched_loader"].changes_data
    assert [name for name, each in found.items() if each.steadies] == ["kept_memory"]


@pytest.mark.parametrize("who", ["machine", "task"])
def test_a_technique_that_refuses_is_offered_with_its_reason(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_technique(Polish)
    monkeypatch.setitem(Polish.refusals, who, "too shiny")
    offer = next(each for each in offers(*here()) if each.technique == "polish")
    assert offer.refusal == "too shiny"
    assert offer.parts == ()


def test_a_technique_of_ones_own_is_decoded_by_its_own_structure() -> None:
    register_technique(Polish)
    plan = Plan(parts={"fused_optimizer": {}, "polish": {"strength": 7, "way": "hard"}})
    decoded = decode(plan)
    assert [technique.name for technique, _ in decoded] == ["polish", "fused_optimizer"]
    assert decoded[0][1] == PolishPart(strength=7, way=Way.HARD)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"polish": {"strenght": 7}},
            "plan: key 'plan.polish.strenght' is not known. Did you mean 'plan.polish.strength'?",
        ),
        (
            {"polish": {"strength": "much"}},
            'plan: plan.polish.strength = "much" is text; it takes a whole number.',
        ),
        ({"polich": {}}, "plan: technique 'plan.polich' is not known. Did you mean 'plan.polish'?"),
        (
            {"wax": {}},
            "plan: technique 'plan.wax' is not known. "
            f"Known: {', '.join(sorted([*(each.name for each in BUNDLED), 'polish']))}.",
        ),
    ],
)
def test_a_bad_part_is_refused_with_its_path(parts: dict[str, Any], message: str) -> None:
    register_technique(Polish)
    with pytest.raises(HastenError) as refusal:
        decode(Plan(parts=parts))
    assert str(refusal.value).startswith(message)


def test_a_bad_part_is_refused_before_anything_is_applied() -> None:
    register_technique(Polish)
    pipeline = make_pipeline()
    with pytest.raises(HastenError):
        Run(pipeline, Plan(parts={"polish": {}, "fused_optimizer": {"speed": 1}}))
    assert pipeline.clip_norm is None


def test_a_technique_of_ones_own_is_in_the_plan_of_its_level() -> None:
    register_technique(Polish)
    plan = PerformanceConfig(optimization_level=OptimizationLevel.BASIC).resolve(*here())
    assert plan.parts == {"batched_loader": {}, "polish": {"strength": 2, "way": "soft"}}
    assert Rung.deepest(each.rung for each, _ in decode(plan)) is Rung.BITWISE


def test_a_technique_that_refuses_is_in_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    register_technique(Polish)
    monkeypatch.setitem(Polish.refusals, "machine", "too shiny")
    assert "polish" not in PerformanceConfig().resolve(*here()).parts


def test_a_technique_of_ones_own_is_applied_and_undone() -> None:
    register_technique(Polish)
    pipeline = make_pipeline()
    run = Run(pipeline, Plan(parts={"polish": {"strength": 5}}))
    assert pipeline.clip_norm == 5.0
    assert [str(each) for each in run.applied] == ["polish: done (polished 5 times)"]
    run.undo()
    assert pipeline.clip_norm is None


def test_a_technique_of_ones_own_is_in_the_schema_of_a_recipe() -> None:
    before = recipe_schema()
    register_technique(Polish)
    schema = recipe_schema()
    plan = schema["$defs"]["Recipe"]["properties"]["plan"]
    assert set(plan["properties"]) - set(
        before["$defs"]["Recipe"]["properties"]["plan"]["properties"]
    ) == {"polish"}
    assert plan["properties"]["polish"]["description"] == "Polishes the model."


@pytest.mark.parametrize(
    ("parts", "valid"),
    [
        ({}, True),
        ({"polish": {}, "compile": {"mode": "max-autotune"}}, True),
        ({"polish": {"strength": 3, "way": "hard"}}, True),
        ({"polish": {"way": "harsh"}}, False),
        ({"polish": {"shine": 3}}, False),
        ({"compile": {"mode": "fast"}}, False),
        ({"wax": {}}, False),
    ],
)
def test_the_schema_takes_the_parts_that_decode(parts: dict[str, Any], valid: bool) -> None:
    register_technique(Polish)
    schema = recipe_schema()
    plan = {**schema["$defs"]["Recipe"]["properties"]["plan"], "$defs": schema["$defs"]}
    assert jsonschema.Draft202012Validator(plan).is_valid(parts) is valid
    if valid:
        assert len(decode(Plan(parts=parts))) == len(parts)
        return
    with pytest.raises(HastenError):
        decode(Plan(parts=parts))


def test_the_deepest_rung_of_its_parts_is_the_rung_of_a_plan() -> None:
    register_technique(Polish)
    assert Rung.deepest(each.rung for each, _ in decode(NAIVE)) is Rung.BITWISE
    both = decode(Plan(parts={"polish": {}, "compile": {}}))
    assert Rung.deepest(each.rung for each, _ in both) is Rung.ROUNDING


def test_techniques_are_listed_in_the_order_in_which_they_compose() -> None:
    register_technique(Polish)
    names = [each.name for each in all_techniques()]
    assert names == [
        "batch_size",
        "resident_data",
        "batched_loader",
        "loader_workers",
        "overlapped_transfer",
        "weight_initialization",
        "convolution_search",
        "kept_memory",
        "memory_format",
        "polish",
        "recurrent_state",
        "activation_checkpointing",
        "compile",
        "mixed_precision",
        "matmul_precision",
        "attention",
        "fused_optimizer",
        "gradient_accumulation",
        "whole_step_graph",
        "late_readings",
    ]


def test_a_known_technique_is_found_by_its_name() -> None:
    register_technique(Polish)
    assert type(get_technique("polish")) is Polish
    with pytest.raises(HastenError, match="here: technique 'polis' is not known"):
        get_technique("polis", where="here")


def test_registering_a_technique_twice_is_registering_it_once() -> None:
    assert register_technique(Polish) is Polish
    register_technique(Polish)
    assert [each.name for each in all_techniques()].count("polish") == 1


def test_a_name_that_is_taken_is_refused() -> None:
    class Other(Polish):
        name = "compile"

    with pytest.raises(HastenError) as refusal:
        register_technique(Other)
    assert str(refusal.value) == (
        "A technique named 'compile' is registered already (CompileTechnique). "
        "Give yours another name."
    )
    assert type(get_technique("compile")).__name__ == "CompileTechnique"


@pytest.mark.parametrize("bad", ["", "two words", "4ever", "a.b"])
def test_a_name_that_is_no_identifier_is_refused(bad: str) -> None:
    class Other(Polish):
        name = bad

    with pytest.raises(HastenError, match="cannot name a technique"):
        register_technique(Other)


class Struct(msgspec.Struct):
    strength: int = 1


class Demanding(Part, frozen=True, kw_only=True):
    strength: int


@pytest.mark.parametrize("bad", [Struct, dict, PolishPart(), None])
def test_a_part_that_is_no_part_is_refused(bad: Any) -> None:
    class Other(Polish):
        name = "other"
        part = bad

    with pytest.raises(HastenError) as refusal:
        register_technique(Other)
    assert str(refusal.value) == (
        "Other.part is not a subclass of hasten.Part. "
        "Let its settings be a class that derives from hasten.Part."
    )
    assert "other" not in [each.name for each in all_techniques()]


def test_a_part_with_a_field_without_a_default_is_refused() -> None:
    class Other(Polish):
        name = "other"
        part = Demanding

    with pytest.raises(HastenError) as refusal:
        register_technique(Other)
    assert str(refusal.value) == (
        "Demanding.strength has no default. Give every setting of a technique one."
    )
