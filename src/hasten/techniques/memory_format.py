"""Keep images and convolution weights with the channels last in memory."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

IMAGE_DIMENSIONS = 4
CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


class MemoryFormatPart(Part, frozen=True, kw_only=True):
    format: Literal["channels_last"] = "channels_last"
    """Of weights and images in memory; the channels of a pixel stand side by side."""


class MemoryFormatTechnique(Technique[MemoryFormatPart]):
    name = "memory_format"
    part = MemoryFormatPart
    stage = Stage.LAYOUT
    rung = Rung.ROUNDING
    answers = ("eager-model", "compute-bound", "memory-bound")
    about = "Lays out the model's 2-d convolutions and its image batches channels-last."
    helps = "Networks of 2-d convolutions, on CPUs and with 16-bit products on GPUs."
    costs = "A copy of each batch. Single odd shapes can be slower."
    limits = (
        "Weights keep their names and values; their strides change, and so do gradients'. Weights "
        "whose memory is shared, with another tensor of the model or with another process, are "
        "refused, since a new layout has memory of its own; a tensor that only other code holds is "
        "not seen."
    )
    needs = "Any CPU or GPU."

    def unsuited(self, traits: Traits) -> str | None:
        return None if "conv" in traits.model.families else "the model has no convolution"

    def to_try(self, environment: Environment, traits: Traits) -> list[MemoryFormatPart]:
        return [MemoryFormatPart()]

    def apply(self, pipeline: Pipeline, part: MemoryFormatPart) -> Effect:
        modules = [m for m in pipeline.model.modules() if isinstance(m, CONVOLUTIONS)]
        weights: list[Tensor] = list({id(m.weight): m.weight for m in modules}.values())
        if not weights:
            raise CannotApply("the model has no 2-d convolution")
        if all(_is_last(each) for each in weights):
            raise CannotApply("the model is channels-last already")
        if any(_is_shared(each, pipeline.model) for each in weights):
            raise CannotApply("other tensors share the memory of a weight, and would no longer")
        before, strides = pipeline.transfer, {each: each.stride() for each in weights}
        for weight in weights:
            _relayout(pipeline, weight, torch.channels_last)

        def transfer(batch: Any, device: torch.device) -> Any:
            return pytree.tree_map_only(Tensor, _channels_last, before(batch, device))

        def undo() -> None:
            pipeline.transfer = before
            for parameter, was in strides.items():
                if torch.empty(parameter.shape, device="meta").stride() == was:
                    _relayout(pipeline, parameter, torch.contiguous_format)

        def did_run() -> str | None:
            lost = [each for each in weights if not _is_last(each)]
            return "other code has laid the weights out anew" if lost else None

        pipeline.transfer = transfer
        return Effect(why=f"{len(modules)} convolutions channels-last", undo=undo, did_run=did_run)


def _is_last(weight: Tensor) -> bool:
    return weight.is_contiguous(memory_format=torch.channels_last)


def _is_shared(weight: Tensor, model: nn.Module) -> bool:
    """With another process, a larger tensor that it is a part of, or another one of the model."""
    # All of a GPU's say that they are shared.
    if weight.device.type == "cpu" and weight.is_shared():  # type: ignore[no-untyped-call]
        return True
    storage = weight.untyped_storage()
    if storage.nbytes() > weight.numel() * weight.element_size():
        return True
    held = [
        tensor
        for module in model.modules()
        for tensors in (module._parameters, module._buffers, vars(module))
        for tensor in tensors.values()
        if isinstance(tensor, Tensor) and tensor.layout == torch.strided
    ]
    place = storage.data_ptr()
    return any(each is not weight and each.untyped_storage().data_ptr() == place for each in held)


def _channels_last(tensor: Tensor) -> Tensor:
    if tensor.dim() != IMAGE_DIMENSIONS:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def _relayout(pipeline: Pipeline, parameter: Tensor, layout: torch.memory_format) -> None:
    """The parameter itself and all that follows its strides: its gradient and optimizer state."""
    parameter.data = parameter.data.contiguous(memory_format=layout)
    if parameter.grad is not None:
        parameter.grad = parameter.grad.contiguous(memory_format=layout)
    for optimizer in pipeline.optimizers:
        held = optimizer.state.get(parameter, {})
        for key, value in held.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                held[key] = value.contiguous(memory_format=layout)
