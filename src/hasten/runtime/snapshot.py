"""The state of a pipeline, copied to host memory, to redo a step from."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state, restore_random_state
from hasten.task.settings import Attributes


class Snapshot:
    """Weights, gradients, all buffers, optimizers, schedulers, the scaler, carried state,
    attributes of modules, random generators; not the loader.

    Restored into the same objects, under the same effects as when it was taken.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._parameters = [(each, _Kept.of(each), _keep(each.grad)) for each in pipeline.trained()]
        self._buffers = [
            (module, name, buffer, _keep(buffer))
            for module in pipeline.model.modules()
            for name, buffer in module._buffers.items()
        ]
        self._optimizers = [_OptimizerState(each) for each in pipeline.optimizers]
        self._schedulers = [
            (each, copy.deepcopy(each.state_dict())) for each in pipeline.schedulers
        ]
        self._pipeline = pipeline
        self._carried = _keep(pipeline.carried_state)
        self._scaler = _ScalerState(pipeline.scaler) if pipeline.scaler is not None else None
        self._attributes = Attributes(pipeline.model.modules())
        self._random = random_state()

    @torch.no_grad()
    def restore(self) -> None:
        for parameter, weight, gradient in self._parameters:
            parameter.copy_(weight.host)
            parameter.grad = _give_back(gradient)
        for module, name, buffer, kept in self._buffers:
            module._buffers[name] = buffer  # the model may have put another in its place, or none
            if buffer is not None:
                buffer.copy_(kept.host)
        for each in self._optimizers:
            each.restore()
        for scheduler, state in self._schedulers:
            scheduler.load_state_dict(copy.deepcopy(state))
        self._pipeline.carried_state = _give_back(self._carried)
        if self._scaler is not None:
            self._scaler.restore()
        self._attributes.restore()
        restore_random_state(self._random)


class _OptimizerState:
    """Held to the bit: ``load_state_dict`` would round it to the type of the parameters, and put
    new groups in the place of those that others may hold."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._saved = None
        if type(optimizer).load_state_dict is not Optimizer.load_state_dict:
            self._saved = _keep(optimizer.state_dict())  # it may hold more than its state
        self._state = [(key, _keep(value)) for key, value in optimizer.state.items()]
        self._groups = [
            {key: _keep(value) for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ]

    def restore(self) -> None:
        optimizer = self._optimizer
        if self._saved is not None:
            optimizer.load_state_dict(_give_back(self._saved))
        optimizer.state.clear()
        optimizer.state.update((parameter, _give_back(held)) for parameter, held in self._state)
        for group, kept in zip(optimizer.param_groups, self._groups, strict=True):
            for key, value in kept.items():
                if isinstance(value, _Kept) and isinstance(group.get(key), Tensor):
                    group[key].copy_(value.host)  # a learning rate that others hold
                else:
                    group[key] = _give_back(value)


class _ScalerState:
    """As tensors: ``state_dict`` tells a scale that was not made yet from one that was no more."""

    NAMES = ("_scale", "_growth_tracker")

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        self._scaler = scaler
        self._kept = {name: _keep(getattr(scaler, name)) for name in self.NAMES}

    def restore(self) -> None:
        for name, kept in self._kept.items():
            setattr(self._scaler, name, _give_back(kept))
        self._scaler._per_optimizer_states.clear()  # what the step had unscaled


@dataclass(frozen=True)
class _Kept:
    """A tensor in host memory, and where it goes."""

    host: Tensor
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor) -> "_Kept":
        return cls(tensor.detach().to("cpu", copy=True), tensor.device)


def _keep(tree: Any) -> Any:
    return pytree.tree_map_only(Tensor, _Kept.of, tree)


def _give_back(tree: Any) -> Any:
    return pytree.tree_map_only(_Kept, lambda kept: kept.host.to(kept.device, copy=True), tree)


def named_state(pipeline: Pipeline) -> dict[str, Tensor]:
    """Every tensor of the model, buffers that are not saved included."""
    return {**dict(pipeline.model.named_parameters()), **dict(pipeline.model.named_buffers())}
