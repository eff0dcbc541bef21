"""The state of a pipeline, copied to host memory, to redo a step from."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state, restore_random_state


class Snapshot:
    """Weights, all buffers, optimizers, schedulers and random generators; not the loader.

    Restored into the same objects, under the same effects as when it was taken.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._tensors = {key: _to_host(value) for key, value in named_state(pipeline).items()}
        self._optimizers = [_copy(each.state_dict()) for each in pipeline.optimizers]
        self._schedulers = [copy.deepcopy(each.state_dict()) for each in pipeline.schedulers]
        self._random = random_state()

    @torch.no_grad()
    def restore(self) -> None:
        for key, tensor in named_state(self._pipeline).items():
            tensor.copy_(self._tensors[key])
        for optimizer, optimizer_state in zip(
            self._pipeline.optimizers, self._optimizers, strict=True
        ):
            optimizer.load_state_dict(_copy(optimizer_state))
            optimizer.zero_grad()
        for scheduler, scheduler_state in zip(
            self._pipeline.schedulers, self._schedulers, strict=True
        ):
            scheduler.load_state_dict(copy.deepcopy(scheduler_state))
        restore_random_state(self._random)


def named_state(pipeline: Pipeline) -> dict[str, Tensor]:
    """Every tensor of the model, buffers that are not saved included."""
    return {**dict(pipeline.model.named_parameters()), **dict(pipeline.model.named_buffers())}


def _to_host(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = pytree.tree_map_only(Tensor, _to_host, copy.copy(state))
    return copied
