"""Copy the next batch to the device while the current one is computed."""

import torch

from hasten.data.loaders.overlap import OverlappedLoader
from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class OverlappedTransferPart(Part, frozen=True, kw_only=True):
    pass


class OverlappedTransferTechnique(Technique[OverlappedTransferPart]):
    name = "overlapped_transfer"
    part = OverlappedTransferPart
    stage = Stage.TRANSFER
    rung = Rung.BITWISE
    answers = ("transfer-bound",)
    about = "Copies batches through pinned memory on a stream of their own, one ahead."
    helps = "Large batches whose copy takes a visible share of a step."
    costs = "Memory for one more batch, on the host and on the device."
    limits = (
        "One batch is taken ahead of its step, so that a loader without workers draws random "
        "numbers one step early."
    )
    needs = "A CUDA device."

    def unavailable(self, environment: Environment) -> str | None:
        return None if environment.device.kind == "cuda" else "there is no CUDA device"

    def to_try(self, environment: Environment, traits: Traits) -> list[OverlappedTransferPart]:
        return [OverlappedTransferPart()]

    def apply(self, pipeline: Pipeline, part: OverlappedTransferPart) -> Effect:
        if pipeline.device.type != "cuda" or not torch.cuda.is_available():
            raise CannotApply("there is no CUDA device")
        before = pipeline.loader
        if before == ():
            raise CannotApply("the loop keeps its own loader")
        pipeline.loader = OverlappedLoader(before, pipeline.device)

        def undo() -> None:
            pipeline.loader = before

        return Effect(why="batches are copied one ahead, on a stream of their own", undo=undo)
