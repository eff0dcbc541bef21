"""Compute matrix products in 16 bits, keep the weights in 32."""

from typing import Annotated, Any, Literal

import torch
from msgspec import Meta
from torch import nn

from hasten.records.environment import Device, Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.autograd import computed_dtypes
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
FAST_FP16 = (7, 0)
"""The capability from which CUDA devices have matrix instructions for fp16."""


class MixedPrecisionPart(Part, frozen=True, kw_only=True):
    dtype: Literal["bf16", "fp16"] = "bf16"
    """Of matrix products; "fp16" brings a gradient scaler."""
    initial_scale: Annotated[float, Meta(ge=1, le=1e20)] = 65536.0
    """Of the loss, for fp16 only; it adapts from there over the whole run."""


class MixedPrecisionTechnique(Technique[MixedPrecisionPart]):
    name = "mixed_precision"
    part = MixedPrecisionPart
    stage = Stage.PRECISION
    rung = Rung.PARITY
    answers = ("compute-bound", "memory-bound", "slow-precision", "memory-peak")
    about = "Runs the forward pass under autocast in bf16, or in fp16 with one gradient scaler."
    helps = (
        "Where matrix products and convolutions are large enough to fill the device, and where "
        "activations are what fills its memory."
    )
    costs = (
        "Precision: products take inputs of 8 bits of mantissa (bf16) or 11 (fp16) instead of 24. "
        "Casts can make a small model slower. fp16 scales the loss, and skips an update whose "
        "gradients overflow."
    )
    limits = (
        "Gradients are unscaled before they are clipped. On a CPU without 16-bit matrix "
        "instructions it is many times slower, and recurrent layers may refuse it."
    )
    instead_of = ("matmul_precision",)
    brings = ("memory_format",)  # 16-bit convolutions transpose what is not channels-last
    needs = (
        "A GPU with bf16 (compute capability 8.0) or fp16 (7.0), or a CPU with such instructions."
    )

    def unavailable(self, environment: Environment) -> str | None:
        device = environment.device
        if device.bf16 or _only_fp16(device):
            return None
        return f"{device.name} has no fast 16-bit arithmetic"

    def unsuited(self, traits: Traits) -> str | None:
        return None if _multiplies(traits) else "the model has no matrix product"

    def to_try(self, environment: Environment, traits: Traits) -> list[MixedPrecisionPart]:
        return [MixedPrecisionPart(dtype="fp16" if _only_fp16(environment.device) else "bf16")]

    def apply(self, pipeline: Pipeline, part: MixedPrecisionPart) -> Effect:
        dtype, device = DTYPES[part.dtype], pipeline.device.type
        if torch.is_autocast_enabled(device):
            raise CannotApply("the loop runs under an autocast of its own")
        if any(each.dtype in DTYPES.values() for each in pipeline.model.parameters()):
            raise CannotApply("the weights are in 16 bits already")
        before, scaler_before = pipeline.forward, pipeline.scaler
        seen: set[torch.dtype] = set()

        def forward(model: nn.Module, *args: Any) -> Any:
            with torch.autocast(device, dtype):
                output = before(model, *args)
            if not seen and torch.is_grad_enabled():  # of the first step only
                seen.update(computed_dtypes(output))
            return output

        def undo() -> None:
            pipeline.forward, pipeline.scaler = before, scaler_before

        def did_run() -> str | None:
            return None if dtype in seen else f"nothing was computed in {part.dtype}"

        pipeline.forward = forward
        if part.dtype == "fp16":
            pipeline.scaler = torch.amp.GradScaler(device, init_scale=part.initial_scale)
        scaled = ", one scaler for the run" if part.dtype == "fp16" else ""
        slow = ", which this CPU computes slowly" if _is_emulated(device, part.dtype) else ""
        return Effect(why=f"{part.dtype} autocast{scaled}{slow}", undo=undo, did_run=did_run)


def _is_emulated(device: str, dtype: str) -> bool:
    """Whether a CPU has no instructions for products of the type."""
    if device != "cpu":
        return False
    if dtype == "fp16":
        return not torch.cpu._is_amx_fp16_supported()
    return not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _only_fp16(device: Device) -> bool:
    return device.kind == "cuda" and not device.bf16 and device.capability >= FAST_FP16


def _multiplies(traits: Traits) -> bool:
    return bool({"linear", "conv", "recurrent", "attention"} & set(traits.model.families))
