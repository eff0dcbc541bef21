"""Let cuDNN time its algorithms for each shape of convolution and keep the fastest."""

import torch

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class ConvolutionSearchPart(Part, frozen=True, kw_only=True):
    pass


class ConvolutionSearchTechnique(Technique[ConvolutionSearchPart]):
    name = "convolution_search"
    part = ConvolutionSearchPart
    stage = Stage.LAYOUT
    rung = Rung.ROUNDING
    answers = ("compute-bound", "memory-bound")
    about = "Switches cuDNN's benchmark mode on: each shape's algorithms are timed once."
    helps = "Convolutions of few shapes, seen many times."
    costs = "Some steps at the start, and again for each new shape; workspace memory."
    limits = "A setting of the whole process. The algorithm may differ from run to run."
    needs = "A CUDA device with cuDNN."

    def unavailable(self, environment: Environment) -> str | None:
        return None if environment.device.kind == "cuda" else "there is no CUDA device"

    def unsuited(self, traits: Traits) -> str | None:
        return None if "conv" in traits.model.families else "the model has no convolution"

    def to_try(self, environment: Environment, traits: Traits) -> list[ConvolutionSearchPart]:
        return [ConvolutionSearchPart()]

    def apply(self, pipeline: Pipeline, part: ConvolutionSearchPart) -> Effect:
        if pipeline.device.type != "cuda":
            raise CannotApply("there is no CUDA device")
        if torch.backends.cudnn.benchmark:
            raise CannotApply("cuDNN's benchmark mode is on already")
        if torch.are_deterministic_algorithms_enabled():
            raise CannotApply("deterministic algorithms are asked for, and it could take others")
        torch.backends.cudnn.benchmark = True

        def undo() -> None:
            torch.backends.cudnn.benchmark = False

        def did_run() -> str | None:
            return None if torch.backends.cudnn.benchmark else "other code has switched it off"

        return Effect(why="cuDNN times its algorithms", undo=undo, did_run=did_run)
