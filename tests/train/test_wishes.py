"""What flags ask for by name becomes a plan."""

from typing import Any

import pytest

from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.records.plan import NAIVE, Plan
from hasten.techniques.registry import decode
from hasten.train.wishes import Wishes

EVERYTHING = Wishes(mixed_precision="bf16", compile_model=True, gradient_checkpointing=True)


def test_without_flags_a_plan_stays_as_it_is() -> None:
    plan = Plan(parts={"mixed_precision": {"dtype": "fp16"}})
    assert Wishes().over(plan) == plan
    assert Wishes().over(NAIVE) == NAIVE


@pytest.mark.parametrize(
    ("wish", "parts"),
    [
        ({"mixed_precision": "bf16"}, {"mixed_precision": {"dtype": "bf16"}}),
        ({"mixed_precision": "fp16"}, {"mixed_precision": {"dtype": "fp16"}}),
        ({"mixed_precision": "none"}, {}),
        ({"compile_model": True}, {"compile": {}}),
        ({"gradient_checkpointing": True}, {"activation_checkpointing": {}}),
    ],
)
def test_each_flag_is_one_part_of_the_naive_plan(
    wish: dict[str, Any], parts: dict[str, Any]
) -> None:
    assert Wishes(**wish).over(NAIVE).parts == parts


def test_flags_are_put_over_a_recipe() -> None:
    recipe = Plan(parts={"batched_loader": {}, "mixed_precision": {"dtype": "bf16"}})
    assert Wishes(mixed_precision="none").over(recipe).parts == {"batched_loader": {}}
    assert Wishes(mixed_precision="fp16").over(recipe).parts == {
        "batched_loader": {},
        "mixed_precision": {"dtype": "fp16"},
    }


def test_what_a_recipe_has_already_keeps_its_settings() -> None:
    recipe = Plan(parts={"compile": {"mode": "max-autotune-no-cudagraphs"}})
    assert Wishes(compile_model=True).over(recipe) == recipe


def test_every_part_is_one_that_its_technique_can_read() -> None:
    assert len(decode(EVERYTHING.over(NAIVE))) == 3


@pytest.mark.parametrize("level", OptimizationLevel)
def test_a_level_has_the_flags_as_its_wishes(level: OptimizationLevel) -> None:
    assert Wishes().at(level) == PerformanceConfig(optimization_level=level)
    assert EVERYTHING.at(level) == PerformanceConfig(
        optimization_level=level,
        enable_amp=True,
        amp_dtype="bf16",
        enable_compile=True,
        enable_gradient_checkpointing=True,
    )


def test_no_mixed_precision_is_a_wish_too() -> None:
    config = Wishes(mixed_precision="none").at(OptimizationLevel.ULTRA)
    assert config.enable_amp is False
    assert config.amp_dtype is None
