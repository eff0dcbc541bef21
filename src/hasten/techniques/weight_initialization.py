"""Draw the weights anew by a named scheme. Changes the training; only where it is asked for."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

SCHEMES: dict[str, Callable[..., Any]] = {
    "xavier_uniform": nn.init.xavier_uniform_,
    "xavier_normal": nn.init.xavier_normal_,
    "kaiming_uniform": partial(nn.init.kaiming_uniform_, nonlinearity="relu"),
    "kaiming_normal": partial(nn.init.kaiming_normal_, nonlinearity="relu"),
    "orthogonal": nn.init.orthogonal_,
}
LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


class WeightInitializationPart(Part, frozen=True, kw_only=True):
    scheme: Literal[
        "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal"
    ] = "kaiming_normal"
    """As in torch.nn.init; the kaiming ones are for ReLU."""


class WeightInitializationTechnique(Technique[WeightInitializationPart]):
    name = "weight_initialization"
    part = WeightInitializationPart
    stage = Stage.INIT
    rung = Rung.CHANGES_TRAINING
    answers = ()
    about = "Draws the weights of linear and convolution layers anew by a named scheme."
    helps = "A model whose author left the default and whose depth or activation wants another."
    costs = "It is another training: compare the time to a target, never steps per second."
    limits = "Linear and convolution weights that have two dimensions or more; biases become zero."
    needs = "Any CPU or GPU."
    reserved_for = "asked"

    def to_try(self, environment: Environment, traits: Traits) -> list[WeightInitializationPart]:
        return []

    def apply(self, pipeline: Pipeline, part: WeightInitializationPart) -> Effect:
        if any(optimizer.state for optimizer in pipeline.optimizers):
            raise CannotApply("the training has begun, and its weights would be lost")
        layers = [m for m in pipeline.model.modules() if isinstance(m, LAYERS)]
        if not layers:
            raise CannotApply("the model has no linear or convolution layer")
        before = {p: p.detach().to("cpu", copy=True) for m in layers for p in m.parameters(False)}
        # A generator of its own: applied again it draws the same, and moves no other draw.
        generator = torch.Generator(pipeline.device).manual_seed(torch.initial_seed())
        with torch.no_grad():
            for layer in layers:
                SCHEMES[part.scheme](layer.weight, generator=generator)
                if layer.bias is not None:
                    layer.bias.zero_()

        @torch.no_grad()
        def undo() -> None:
            if not any(optimizer.state for optimizer in pipeline.optimizers):
                for parameter, weight in before.items():
                    parameter.copy_(weight)

        return Effect(why=f"{len(layers)} layers drawn anew, {part.scheme}", undo=undo)
