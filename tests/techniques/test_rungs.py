"""Every technique that claims to leave a training the same is held to it on five trainings.

Bitwise: losses, gradients as the optimizer saw them, updates and buffers are equal to the bit.
Rounding: they stay within what a perturbation of the plain weights causes (stats/yardstick.py).
Where a technique cannot apply, the reason is asserted, so that nothing is passed over in silence.
"""

import functools
from collections.abc import Iterator
from typing import Literal

import pytest
import torch

from arms import Form, Trace, Yardstick, first_difference, measure_yardstick, trace
from hasten.records.plan import Plan, RawPart, Rung
from hasten.stats.yardstick import EPSILON
from hasten.task.pipeline import Pipeline
from hasten.techniques.registry import BUNDLED
from trainings import NAMES, make_training

NO_CUDA = "there is no CUDA device"
NO_BLOCKS = "the model has no repeated blocks"
NO_STATE = "the task has no recurrent state"
NO_CONVOLUTION = "the model has no 2-d convolution"
NO_ATTENTION = "the model calls no scaled_dot_product_attention"
COUPLED = "BatchNorm couples the rows of a batch: pieces would be another training"

Parts = list[tuple[str, RawPart]]
BITWISE: Parts = [
    ("activation_checkpointing", {"keep": "nothing"}),
    ("activation_checkpointing", {"keep": "products"}),
    ("batched_loader", {}),
    ("kept_memory", {}),
    ("late_readings", {}),
    ("late_readings", {"every": 2, "slots": 1}),
    ("loader_workers", {"workers": 1}),
    ("overlapped_transfer", {}),
    ("recurrent_state", {"state": "none"}),
    ("recurrent_state", {"state": "kept"}),
    ("resident_data", {}),
]
ROUNDING: Parts = [
    ("attention", {"masks": "simplify"}),
    ("attention", {"kernel": "flash"}),
    ("compile", {"backend": "aot_eager"}),
    ("compile", {"backend": "aot_eager", "regions": "with_loss"}),
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
NOT_COMPILED = "torch compiled no part of the model"
FP16_ROUNDING = torch.finfo(torch.float16).eps
"""Both arms round products to fp16: two roundings of nearly the same number differ by up to one
unit in the last place."""
FP16 = Plan(parts={"mixed_precision": {"dtype": "fp16", "initial_scale": 1024.0}})

forms = pytest.mark.parametrize("form", ["pieces", "whole"])
Mode = Literal["fp32", "scaled", "fp16"]
"""In both arms: the plain training; with a scaler but all in fp32, so that nothing hides behind
the rounding of 16 bits; with the scaler and the autocast of mixed_precision."""
modes = pytest.mark.parametrize("mode", ["fp32", "scaled", "fp16"])
trainings = pytest.mark.parametrize("training", NAMES)


def each_of(cases: Parts) -> pytest.MarkDecorator:
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
    if technique == "compile" and training == "recurrent" and "regions" not in part:
        return NOT_COMPILED
    if technique == "gradient_accumulation" and training == "convolutions":
        return COUPLED
    if technique == "activation_checkpointing" or part.get("regions") == "blocks":
        return None if training in HAVE_BLOCKS else NO_BLOCKS
    return None


def both_arms(training: str, mode: Mode, *, dropout: bool) -> tuple[Pipeline, Plan]:
    pipeline = make_training(training, dropout=dropout)
    if mode == "fp16" and training != "recurrent":  # the LSTM of a CPU has no fp16
        # A gradient that is zero but for rounding, whose sign would be a whole step of Adam.
        pipeline.optimizers[0].param_groups[0]["eps"] = 1e-4
        return pipeline, FP16
    if mode != "fp32":
        pipeline.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    return pipeline, Plan()


def run_arm(training: str, mode: Mode, form: Form, parts: Parts, *, dropout: bool = True) -> Trace:
    pipeline, plan = both_arms(training, mode, dropout=dropout)
    return trace(pipeline, Plan(parts={**plan.parts, **dict(parts)}), form)


@functools.cache
def plain(training: str, mode: Mode, form: Form) -> Trace:
    return run_arm(training, mode, form, [])


@functools.cache
def yardstick(training: str, mode: Mode, form: Form) -> Yardstick:
    _, plan = both_arms(training, mode, dropout=False)
    epsilon = FP16_ROUNDING if plan is FP16 else EPSILON
    return measure_yardstick(
        lambda: both_arms(training, mode, dropout=False)[0], plan, form, epsilon
    )


def held_to_its_word(found: Trace, technique: str, part: RawPart, training: str) -> None:
    """It was done, or was left out for the reason that is expected here."""
    assert found.run is not None
    said = {each.technique: each for each in found.run.applied}
    reason = refusal(technique, part, training)
    if reason is None:
        assert said[technique].outcome == "done", said[technique].why
    elif said[technique].outcome == "done":  # the parts of a Run do not ask; a later step would
        assert reason in found.complaints[technique]
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
@modes
@forms
@each_of(BITWISE)
def test_a_bitwise_technique_is_equal_to_the_bit(
    technique: str, part: RawPart, form: Form, mode: Mode, training: str
) -> None:
    changed = run_arm(training, mode, form, [(technique, part)])
    held_to_its_word(changed, technique, part, training)
    assert first_difference(plain(training, mode, form), changed) == ""


@trainings
@modes
@forms
@each_of(ROUNDING)
def test_a_rounding_technique_stays_within_rounding(
    technique: str, part: RawPart, form: Form, mode: Mode, training: str
) -> None:
    changed = run_arm(training, mode, form, [(technique, part)], dropout=False)
    held_to_its_word(changed, technique, part, training)
    assert yardstick(training, mode, form).share(changed) <= 1.0


def together(cases: Parts, training: str) -> Parts:
    """All that apply to a training, each with the first of its settings."""
    chosen: dict[str, RawPart] = {}
    for technique, part in cases:
        if refusal(technique, part, training) is None:
            chosen.setdefault(technique, part)
    return list(chosen.items())


@trainings
@modes
@forms
def test_all_bitwise_techniques_together_are_equal_to_the_bit(
    form: Form, mode: Mode, training: str
) -> None:
    parts = together(BITWISE, training)
    changed = run_arm(training, mode, form, parts)
    assert {name for name, _ in parts} - done(changed) == left_nothing(parts)
    assert first_difference(plain(training, mode, form), changed) == ""


@trainings
@modes
@forms
def test_all_techniques_together_stay_within_rounding(
    form: Form, mode: Mode, training: str
) -> None:
    parts = together([*BITWISE, *ROUNDING], training)
    changed = run_arm(training, mode, form, parts, dropout=False)
    assert {name for name, _ in parts} - done(changed) == left_nothing(parts)
    assert yardstick(training, mode, form).share(changed) <= 1.0


def done(found: Trace) -> set[str]:
    assert found.run is not None
    return {each.technique for each in found.run.applied if each.outcome == "done"}


def left_nothing(parts: Parts) -> set[str]:
    """Worker processes have nothing to do beside the loader that gathers whole batches."""
    assert "batched_loader" in dict(parts)
    return {"loader_workers"}
