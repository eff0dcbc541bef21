"""Every technique that claims to leave a training the same is held to it on five trainings.

Bitwise: losses, gradients as the optimizer saw them, updates and buffers are equal to the bit.
Rounding: they stay within what a perturbation of the plain weights causes (stats/yardstick.py).
Where a technique cannot apply, the reason is asserted, so that nothing is passed over in silence.
"""

import functools
from collections.abc import Iterator

import pytest
import torch

from arms import Form, Trace, Yardstick, first_difference, measure_yardstick, trace
from hasten.records.plan import Plan, RawPart, Rung
from hasten.techniques.registry import BUNDLED, get_technique
from trainings import NAMES, make_training

NO_CUDA = "there is no CUDA device"
NO_BLOCKS = "the model has no repeated blocks"
NO_STATE = "the task has no recurrent state"
NO_CONVOLUTION = "the model has no 2-d convolution"
NO_ATTENTION = "the model calls no scaled_dot_product_attention"
COUPLED = "BatchNorm couples the rows of a batch: pieces would be another training"

BITWISE: list[tuple[str, RawPart]] = [
    ("activation_checkpointing", {"keep": "nothing"}),
    ("activation_checkpointing", {"keep": "products"}),
    ("batched_loader", {}),
    ("late_readings", {}),
    ("late_readings", {"every": 2, "slots": 1}),
    ("loader_workers", {"workers": 1}),
    ("overlapped_transfer", {}),
    ("recurrent_state", {"state": "none"}),
    ("recurrent_state", {"state": "kept"}),
    ("resident_data", {}),
]
ROUNDING: list[tuple[str, RawPart]] = [
    ("attention", {"masks": "simplify"}),
    ("attention", {"kernel": "flash"}),
    ("compile", {"backend": "aot_eager"}),
    ("compile", {"backend": "aot_eager", "regions": "blocks"}),
    ("convolution_search", {}),
    ("fused_optimizer", {"implementation": "fused"}),
    ("fused_optimizer", {"implementation": "foreach"}),
    ("gradient_accumulation", {"steps": 2}),
    ("gradient_accumulation", {"steps": 4}),
    ("memory_format", {}),
    ("whole_step_graph", {}),
]
HAVE_BLOCKS = ("convolutions", "transformer", "language")
HAVE_ATTENTION = ("transformer", "language")
FP16 = Plan(parts={"mixed_precision": {"dtype": "fp16", "initial_scale": 1024.0}})

forms = pytest.mark.parametrize("form", ["pieces", "whole"])
scaling = pytest.mark.parametrize("scaled", [False, True], ids=["fp32", "scaled"])
trainings = pytest.mark.parametrize("training", NAMES)


def each_of(cases: list[tuple[str, RawPart]]) -> pytest.MarkDecorator:
    ids = ["-".join([name, *map(str, part.values())]) for name, part in cases]
    return pytest.mark.parametrize(("technique", "part"), cases, ids=ids)


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def refusal(technique: str, part: RawPart, training: str) -> str | None:
    """Why it cannot apply to this training on a CPU; None where it must."""
    if technique in ("overlapped_transfer", "resident_data", "convolution_search"):
        return NO_CUDA
    if technique == "whole_step_graph":
        return NO_CUDA
    if technique == "recurrent_state" and training != "recurrent":
        return NO_STATE
    if technique == "memory_format" and training != "convolutions":
        return NO_CONVOLUTION
    if technique == "attention" and training not in HAVE_ATTENTION:
        return NO_ATTENTION
    if technique == "gradient_accumulation" and training == "convolutions":
        return COUPLED
    if technique == "activation_checkpointing" or part.get("regions") == "blocks":
        return None if training in HAVE_BLOCKS else NO_BLOCKS
    return None


def base_plan(training: str, scaled: bool) -> Plan:
    return FP16 if scaled else Plan()


@functools.cache
def plain(training: str, form: Form, scaled: bool) -> Trace:
    return trace(make_training(training), base_plan(training, scaled), form)


@functools.cache
def yardstick(training: str, form: Form, scaled: bool) -> Yardstick:
    make = functools.partial(make_training, training, dropout=False)
    return measure_yardstick(make, base_plan(training, scaled), form)


def held_to_its_word(found: Trace, technique: str, part: RawPart, training: str) -> None:
    """It was done, or was left out for the reason that is expected here."""
    assert found.run is not None
    said = {each.technique: each for each in found.run.applied}
    reason = refusal(technique, part, training)
    if reason is None:
        assert said[technique].outcome == "done", said[technique].why
    elif said[technique].outcome == "done":  # it shows in a later step than these
        problems = [
            live.effect.problem()
            for live in found.run.effects
            if live.technique == technique and live.effect.problem is not None
        ]
        assert problems == [reason]
    else:
        assert said[technique].why == reason


def test_every_technique_that_claims_a_rung_is_tried_here() -> None:
    claims = {
        rung: {each.name for each in BUNDLED if each.rung is rung}
        for rung in (Rung.BITWISE, Rung.ROUNDING)
    }
    assert {name for name, _ in BITWISE} == claims[Rung.BITWISE]
    assert {name for name, _ in ROUNDING} == claims[Rung.ROUNDING]


@trainings
@scaling
@forms
@each_of(BITWISE)
def test_a_bitwise_technique_is_equal_to_the_bit(
    technique: str, part: RawPart, form: Form, scaled: bool, training: str
) -> None:
    plan = base_plan(training, scaled).with_part(technique, part)
    changed = trace(make_training(training), plan, form)
    held_to_its_word(changed, technique, part, training)
    assert first_difference(plain(training, form, scaled), changed) == ""


@trainings
@scaling
@forms
@each_of(ROUNDING)
def test_a_rounding_technique_stays_within_rounding(
    technique: str, part: RawPart, form: Form, scaled: bool, training: str
) -> None:
    plan = base_plan(training, scaled).with_part(technique, part)
    changed = trace(make_training(training, dropout=False), plan, form)
    held_to_its_word(changed, technique, part, training)
    assert yardstick(training, form, scaled).share(changed) <= 1.0
