"""Draw the weights anew by a named scheme. Changes the training; only where it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

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


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """What was done to a model, by the names of its parameters."""

    scheme: str
    layers: int
    before: dict[str, Tensor]
    after: dict[str, Tensor]

    def is_trained(self, model: nn.Module) -> bool:
        """Whether any weight is no longer what it was when the draw was done."""
        return any(
            name not in self.after or not torch.equal(parameter.detach().cpu(), self.after[name])
            for name, parameter in model.named_parameters()
        )


_drawn: WeakKeyDictionary[nn.Module, _Draw] = WeakKeyDictionary()
"""Of models whose draw was not taken back: one whose training has begun is not drawn again."""


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
    limits = (
        "Linear and convolution weights that have two dimensions or more; biases become zero. Once "
        "the training has begun nothing is drawn again, and undoing leaves the weights. That a "
        "model was trained before is seen by the state of its optimizer, which plain SGD has not."
    )
    needs = "Any CPU or GPU."
    reserved_for = "asked"

    def to_try(self, environment: Environment, traits: Traits) -> list[WeightInitializationPart]:
        return []

    def apply(self, pipeline: Pipeline, part: WeightInitializationPart) -> Effect:
        model = pipeline.model
        draw = _drawn.get(model)
        if draw is not None and draw.scheme == part.scheme and _has_begun(pipeline, draw):
            # Applied again in the midst of the training that it began.
            return Effect(why=_words(draw), undo=lambda: None)
        if _has_begun(pipeline, draw):
            raise CannotApply("the training has begun, and its weights would be lost")
        layers = [m for m in model.modules() if isinstance(m, LAYERS)]
        if not layers:
            raise CannotApply("the model has no linear or convolution layer")
        before = _copy(model)
        _draw_anew(layers, part.scheme, pipeline.device)
        draw = _Draw(scheme=part.scheme, layers=len(layers), before=before, after=_copy(model))
        _drawn[model] = draw

        @torch.no_grad()
        def undo() -> None:
            if _has_begun(pipeline, draw):
                return
            for name, parameter in model.named_parameters():
                parameter.copy_(draw.before[name])
            _drawn.pop(model, None)

        return Effect(why=_words(draw), undo=undo)


def _has_begun(pipeline: Pipeline, draw: _Draw | None) -> bool:
    """An optimizer without momentum keeps no state; then the weights tell."""
    if any(optimizer.state for optimizer in pipeline.optimizers):
        return True
    return draw is not None and draw.is_trained(pipeline.model)


def _words(draw: _Draw) -> str:
    return f"{draw.layers} layers drawn anew, {draw.scheme}"


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().to("cpu", copy=True) for name, p in model.named_parameters()}


@torch.no_grad()
def _draw_anew(layers: list[Any], scheme: str, device: torch.device) -> None:
    # A generator of its own: applied again it draws the same, and moves no other draw.
    generator = torch.Generator(device).manual_seed(torch.initial_seed())
    for layer in layers:
        SCHEMES[scheme](layer.weight, generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()
