"""From wishes to a plan: every field counts, levels differ, what was asked for is not lost."""

import dataclasses
import enum
import types
import typing
from typing import Any

import msgspec
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hasten.config import MemoryFormat, OptimizationLevel, PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.environment import Device, Environment
from hasten.records.plan import NAIVE, Rung
from hasten.records.traits import (
    DataTraits,
    ModelTraits,
    OptimizerTraits,
    Traits,
)
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.registry import all_techniques, decode, get_technique
from plain_loop import make_loader, make_model

BASIC, ADVANCED, ULTRA = OptimizationLevel
GPU = Device(kind="cuda", name="a GPU", count=1, memory_bytes=2**36, bf16=True, capability=(9, 0))
ENVIRONMENT = Environment(
    device=Device(kind="cpu", name="a CPU", count=1, memory_bytes=0),
    cpu="a CPU",
    cores_allowed=2.0,
    cores_present=2,
    threads=2,
    memory_bytes=0,
    shared_memory_bytes=0,
    system="Linux",
    compiler="/usr/bin/g++",
    versions={"torch": "2.13", "triton": "3.6"},
)
WITH_GPU = msgspec.structs.replace(ENVIRONMENT, device=GPU)
TRAITS = Traits(
    model=ModelTraits(
        name="Net", parameters=1, parameter_bytes=4, families=("linear",), repeated_blocks=()
    ),
    data=DataTraits(
        kind="tensors",
        rows=50,
        batch_size=8,
        workers=0,
        default_collate=True,
        draws_random=False,
    ),
    optimizers=(OptimizerTraits(name="Adam", implementation="loop", can_fuse=True),),
    loss_reduction="mean",
)
OF_ALL_KINDS = msgspec.structs.replace(
    TRAITS,
    model=ModelTraits(
        name="Net",
        parameters=1,
        parameter_bytes=4,
        families=("conv", "linear", "recurrent"),
        repeated_blocks=("Block",),
        attention=("fused",),
        resets_state=True,
    ),
)
"""Something to do for every technique."""
ONLY_IN_PLANS = {"batch_size", "kept_memory", "late_readings"}


def parts(config: PerformanceConfig, traits: Traits = TRAITS) -> dict[str, Any]:
    return config.resolve(ENVIRONMENT, traits).parts


def parts_on_gpu(config: PerformanceConfig) -> dict[str, Any]:
    return config.resolve(WITH_GPU, OF_ALL_KINDS).parts


def other_values(kind: Any) -> list[Any]:
    """Values to try for a field of this type. A new type must be taught here."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return [value for each in typing.get_args(kind) for value in other_values(each)]
    if kind is bool:
        return [True, False]
    if kind is int:
        return [1, 2, 4]
    if kind is str:
        return ["orthogonal"]  # of weights; the only field that is a name
    if kind is types.NoneType:
        return [None]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    raise AssertionError(f"this test does not know values of {kind}")


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(PerformanceConfig)])
def test_no_field_is_dead(name: str) -> None:
    """From some level on, another value of the field gives another plan."""
    values = other_values(typing.get_type_hints(PerformanceConfig)[name])
    bases = [PerformanceConfig(optimization_level=level) for level in OptimizationLevel]
    changed = [
        (base, dataclasses.replace(base, **{name: value})) for base in bases for value in values
    ]
    assert any(parts_on_gpu(base) != parts_on_gpu(other) for base, other in changed)


def test_every_technique_is_chosen_by_a_level_or_named_by_a_field() -> None:
    by_level = {
        name
        for level in OptimizationLevel
        for resident in (None, False)
        for name in parts_on_gpu(
            PerformanceConfig(optimization_level=level, enable_resident_data=resident)
        )
    }
    named = set(PerformanceConfig()._asked())
    bundled = {technique.name for technique in all_techniques()}
    assert bundled - by_level - named == ONLY_IN_PLANS
    assert named <= bundled


@pytest.mark.parametrize("name", PerformanceConfig()._asked())
def test_a_technique_that_is_asked_for_is_in_the_plan_and_one_asked_away_is_not(name: str) -> None:
    """Whatever the level, and whether it applies or not."""
    switches = {each.name: each for each in dataclasses.fields(PerformanceConfig)}
    values = {
        "num_workers": 4,
        "gradient_accumulation_steps": 2,
        "weight_initialization": "orthogonal",
    }
    for field in switches:
        if not field.startswith("enable_") and field not in values:
            continue
        asked = dataclasses.replace(
            PerformanceConfig(optimization_level=BASIC), **{field: values.get(field, True)}
        )
        if asked._asked()[name]:
            assert name in parts(asked)
            break
    else:
        raise AssertionError(f"no field asks for {name}")
    if field.startswith("enable_"):
        away = dataclasses.replace(PerformanceConfig(optimization_level=ULTRA), **{field: False})
        assert name not in parts_on_gpu(away)


def test_basic_is_bitwise() -> None:
    plan = PerformanceConfig(optimization_level=BASIC).resolve(ENVIRONMENT, TRAITS)
    assert plan.parts == {"batched_loader": {}}
    assert Rung.deepest(each.rung for each, _ in decode(plan)) is Rung.BITWISE


def test_advanced_adds_what_changes_rounding() -> None:
    plan = PerformanceConfig().resolve(ENVIRONMENT, TRAITS)
    assert plan.parts == {
        "batched_loader": {},
        "compile": {"mode": "default", "regions": "whole", "backend": "inductor", "cache_dir": ""},
        "fused_optimizer": {"implementation": "fused"},
    }
    assert plan == PerformanceConfig(optimization_level=ADVANCED).resolve(ENVIRONMENT, TRAITS)


def test_ultra_adds_what_takes_long_to_prepare() -> None:
    found = parts(PerformanceConfig(optimization_level=ULTRA))
    assert found["compile"]["mode"] == "max-autotune-no-cudagraphs"
    assert set(found) == {"batched_loader", "compile", "fused_optimizer"}
    on_gpu = parts_on_gpu(PerformanceConfig(optimization_level=ULTRA))
    assert set(on_gpu) - set(parts_on_gpu(PerformanceConfig())) == {"whole_step_graph"}


def test_what_leaves_another_nothing_to_do_takes_its_place() -> None:
    found = parts_on_gpu(PerformanceConfig())
    assert "resident_data" in found
    assert not {"batched_loader", "overlapped_transfer"} & set(found)
    without = parts_on_gpu(PerformanceConfig(enable_resident_data=False))
    assert {"batched_loader", "overlapped_transfer"} <= set(without)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (MemoryFormat.AUTO, True),
        (MemoryFormat.CHANNELS_LAST, True),
        (MemoryFormat.CONTIGUOUS, False),
        (MemoryFormat.CHANNELS_FIRST, False),
    ],
)
def test_a_memory_format_decides_by_name(layout: MemoryFormat, expected: bool) -> None:
    config = PerformanceConfig(memory_format=layout)
    assert ("memory_format" in parts_on_gpu(config)) is expected


@pytest.mark.parametrize(
    ("layout", "asked"),
    [
        (MemoryFormat.CONTIGUOUS, False),
        (MemoryFormat.CHANNELS_LAST, True),
        (MemoryFormat.AUTO, True),
        (MemoryFormat.AUTO, False),
    ],
)
def test_a_memory_format_may_be_said_twice(layout: MemoryFormat, asked: bool) -> None:
    config = PerformanceConfig(memory_format=layout, enable_memory_format_optimization=asked)
    assert ("memory_format" in parts_on_gpu(config)) is asked


@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ({}, "bf16"),
        ({"bf16": False, "capability": (7, 5)}, "fp16"),
        ({"bf16": False, "capability": (7, 0)}, "fp16"),
        ({"bf16": False, "capability": (6, 1)}, None),
        ({"bf16": False, "kind": "cpu", "capability": (0, 0)}, None),
    ],
)
def test_the_type_of_mixed_precision_is_what_the_device_is_fast_in(
    device: dict[str, Any], dtype: str | None
) -> None:
    environment = msgspec.structs.replace(
        ENVIRONMENT, device=msgspec.structs.replace(GPU, **device)
    )
    found = PerformanceConfig().resolve(environment, TRAITS).parts.get("mixed_precision")
    assert (found and found["dtype"]) == dtype
    asked = PerformanceConfig(enable_amp=True, amp_dtype="fp16").resolve(environment, TRAITS)
    assert asked.parts["mixed_precision"]["dtype"] == "fp16"


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_a_level_does_not_choose_what_has_nothing_to_try(
    level: OptimizationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    technique = get_technique("batched_loader")
    monkeypatch.setattr(technique, "to_try", lambda environment, traits: [])
    assert "batched_loader" not in parts(PerformanceConfig(optimization_level=level))
    asked = PerformanceConfig(optimization_level=level, enable_batched_loading=True)
    assert "batched_loader" in parts(asked)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps=0 is not possible"),
        ({"num_workers": -1}, "num_workers=-1 is not possible"),
        ({"num_workers": True}, "num_workers=True is not possible"),
        ({"memory_format": "contiguous"}, "memory_format='contiguous' is not possible"),
        ({"optimization_level": "basic"}, "Use OptimizationLevel.BASIC or OptimizationLevel.ADV"),
        ({"enable_amp": "yes"}, "enable_amp='yes' is not possible. Use True or False or None"),
        ({"amp_dtype": "float16"}, "Use 'bf16' or 'fp16' or None"),
        (
            {
                "memory_format": MemoryFormat.CONTIGUOUS,
                "enable_memory_format_optimization": True,
            },
            "CONTIGUOUS and enable_memory_format_optimization=True contradict",
        ),
        (
            {
                "memory_format": MemoryFormat.CHANNELS_FIRST,
                "enable_memory_format_optimization": True,
            },
            "CHANNELS_FIRST and enable_memory_format_optimization=True contradict",
        ),
        (
            {
                "memory_format": MemoryFormat.CHANNELS_LAST,
                "enable_memory_format_optimization": False,
            },
            "CHANNELS_LAST and enable_memory_format_optimization=False contradict",
        ),
    ],
)
def test_a_wish_that_cannot_be_is_refused_at_once(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(HastenError, match=message):
        PerformanceConfig(**wish)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"weight_initialization": "kaimin"}, "kaimin"),
        ({"enable_amp": True, "amp_dtype": "fp8"}, "fp8"),
    ],
)
def test_a_name_that_no_technique_knows_is_refused(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(HastenError, match=message):
        parts(PerformanceConfig(**wish))


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_no_level_changes_the_training_unasked(level: OptimizationLevel) -> None:
    plan = PerformanceConfig(optimization_level=level).resolve(ENVIRONMENT, TRAITS)
    assert (
        Rung.deepest(each.rung for each, _ in decode(plan)).depth() < Rung.CHANGES_TRAINING.depth()
    )


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_every_level_gives_a_plan_that_decodes(level: OptimizationLevel) -> None:
    plan = PerformanceConfig(optimization_level=level).resolve(ENVIRONMENT, TRAITS)
    assert len(decode(plan)) == len(plan.parts) > 0


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_switched_off_nothing_is_planned_whatever_else_is_asked(level: OptimizationLevel) -> None:
    config = PerformanceConfig(
        optimization_level=level, enable_performance_optimization=False, enable_compile=True
    )
    assert config.resolve(ENVIRONMENT, TRAITS) == NAIVE


def test_a_level_leaves_out_what_cannot_apply() -> None:
    model = ModelTraits(
        name="LSTM", parameters=1, parameter_bytes=4, families=("recurrent",), repeated_blocks=()
    )
    data = DataTraits(
        kind="map",
        rows=5,
        batch_size=1,
        workers=0,
        default_collate=True,
        draws_random=False,
    )
    optimizers = (OptimizerTraits(name="RMSprop", implementation="other", can_fuse=False),)
    traits = Traits(model=model, data=data, optimizers=optimizers, loss_reduction="mean")
    assert parts(PerformanceConfig(optimization_level=ULTRA), traits) == {}


def test_what_was_asked_for_and_cannot_apply_is_skipped_with_its_reason() -> None:
    model = make_model()
    optimizer = torch.optim.RMSprop(model.parameters())
    batches = list(make_loader())
    pipeline = Pipeline.from_loop(model, batches, optimizer, F.cross_entropy)
    config = PerformanceConfig(
        optimization_level=BASIC, enable_fused_optimizer=True, enable_batched_loading=True
    )
    plan = config.resolve(read_environment(), read_traits(pipeline))
    assert set(plan.parts) == {"batched_loader", "fused_optimizer"}
    run = Run(pipeline, plan)
    assert [str(each) for each in run.applied] == [
        "batched_loader: skipped (it is a list, not a plain DataLoader)",
        "fused_optimizer: skipped (no optimizer here has a fused implementation)",
    ]
    assert run.effects == []
    assert run.dataloader is batches


def test_a_model_that_is_compiled_already_is_skipped_with_its_reason() -> None:
    model = nn.Linear(6, 3)
    model.compile(backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pipeline = Pipeline.from_loop(model, (), optimizer, F.cross_entropy)
    plan = PerformanceConfig(optimization_level=BASIC, enable_compile=True).resolve(
        ENVIRONMENT, read_traits(pipeline)
    )
    assert [str(each) for each in Run(pipeline, plan).applied] == [
        "compile: skipped (the model is compiled already)"
    ]


def test_resolving_needs_no_machine_and_gives_the_same_plan_twice() -> None:
    config = PerformanceConfig(optimization_level=ULTRA)
    assert config.resolve(ENVIRONMENT, TRAITS) == config.resolve(ENVIRONMENT, TRAITS)
    assert config == PerformanceConfig(optimization_level=ULTRA)
