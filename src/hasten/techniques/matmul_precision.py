"""Let fp32 matrix products use the tensor cores, with inputs rounded to fewer bits."""

from typing import Literal

import torch

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

TENSOR_CORES_WITH_TF32 = (8, 0)


class MatmulPrecisionPart(Part, frozen=True, kw_only=True):
    precision: Literal["high", "medium"] = "high"
    """"high": TF32, 11 bits of mantissa; "medium": bf16 inside, 8 bits."""


class MatmulPrecisionTechnique(Technique[MatmulPrecisionPart]):
    name = "matmul_precision"
    part = MatmulPrecisionPart
    stage = Stage.PRECISION
    rung = Rung.PARITY
    answers = ("compute-bound", "slow-precision")
    about = "Sets torch's float32 matmul precision, so that fp32 products run as TF32."
    helps = "fp32 training on a GPU of the Ampere generation or later, also where autocast is slow."
    costs = "13 of 24 bits of mantissa in the inputs of products; sums stay in fp32."
    limits = "A setting of the whole process: other models in it change too, until it is undone."
    needs = "A CUDA device of compute capability 8.0 or later."

    def unavailable(self, environment: Environment) -> str | None:
        return _without_tf32(environment.device.capability)

    def to_try(self, environment: Environment, traits: Traits) -> list[MatmulPrecisionPart]:
        return [MatmulPrecisionPart()]

    def apply(self, pipeline: Pipeline, part: MatmulPrecisionPart) -> Effect:
        capability = (0, 0)
        if pipeline.device.type == "cuda":
            capability = torch.cuda.get_device_capability(pipeline.device)
        reason = _without_tf32(capability)
        if reason:
            raise CannotApply(reason)
        before = torch.get_float32_matmul_precision()
        if before == part.precision:
            raise CannotApply(f"the precision is {before} already")
        torch.set_float32_matmul_precision(part.precision)

        def undo() -> None:
            torch.set_float32_matmul_precision(before)

        def did_run() -> str | None:
            now = torch.get_float32_matmul_precision()
            return None if now == part.precision else f"other code has set it to {now}"

        return Effect(
            why=f"float32 matmul precision {part.precision}, {before} before",
            undo=undo,
            did_run=did_run,
        )


def _without_tf32(capability: tuple[int, int]) -> str | None:
    if capability >= TENSOR_CORES_WITH_TF32:
        return None
    if capability == (0, 0):
        return "there is no CUDA device"
    return f"a device of compute capability {capability[0]}.{capability[1]} has no TF32"
