"""One captured step: the graph, its inputs, and a watch on all that is baked into it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from hasten.step.eager import EagerStep
from hasten.step.slots import Slots
from hasten.task import batch as batches

TAKES_RATE_AS_TENSOR = (torch.optim.Adam, torch.optim.AdamW)
FUSED_TAKES_RATE_AS_TENSOR = (torch.optim.SGD, torch.optim.Adagrad)


class Capture:
    """Captures at once, which computes nothing. ``replay`` then does a step of a batch."""

    def __init__(self, eager: EagerStep, batch: Any, stream: torch.cuda.Stream) -> None:
        self._eager = eager
        self._pipeline = pipeline = eager.pipeline
        self._slots = Slots(batch, pipeline.device)
        self._rates = [
            _Rate(group, pipeline.device)
            for optimizer in pipeline.optimizers
            if takes_rate_as_tensor(optimizer)
            for group in optimizer.param_groups
        ]
        self._carried = batches.clone(pipeline.carried_state)
        self._parameters = list(pipeline.model.parameters())
        self._training = pipeline.model.training
        self._graph = torch.cuda.CUDAGraph()
        eager.zero_grad()  # before, so that the gradients are made in the graph's own memory
        with _as_tensors(self._rates), _capturing(self._graph, stream, pipeline.device):
            self._loss = self._compute()
        self._norm = eager.gradient_norm
        self._gradients = [each.grad for each in self._parameters]
        self._weights = self._read_weights()
        self._settings = self._read_settings()
        self._groups = [len(each.param_groups) for each in pipeline.optimizers]

    def _compute(self) -> Tensor:
        pipeline, eager = self._pipeline, self._eager
        pipeline.carried_state = self._carried
        loss = eager.compute(eager.transfer(self._slots.batch))
        _copy(pipeline.carried_state, self._carried)
        pipeline.carried_state = self._carried
        return loss

    def replay(self, batch: Any) -> Tensor:
        eager, pipeline = self._eager, self._pipeline
        self._slots.fill(batch)
        if pipeline.carried_state is not self._carried:
            self._take_state()
        for rate in self._rates:
            rate.follow()
        self._graph.replay()
        if eager.loss is not self._loss:  # an eager step came between
            eager.loss, eager.gradient_norm = self._loss, self._norm
            for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
                parameter.grad = gradient
        return self._loss.clone()  # the next replay writes to the same place

    def _take_state(self) -> None:
        if self._pipeline.carried_state is None:
            self._eager.start_epoch()
        _copy(self._pipeline.carried_state, self._carried)
        self._pipeline.carried_state = self._carried

    def same_mode(self) -> bool:
        return self._pipeline.model.training == self._training

    def moved_weights(self) -> bool:
        """Whether parameters are elsewhere, were frozen or set free."""
        return self._read_weights() != self._weights

    def moved_setting(self) -> str | None:
        """Which setting of an optimizer is not what it was."""
        for group, key, value in self._settings:
            if group[key] != value:
                return key
        groups = [len(each.param_groups) for each in self._pipeline.optimizers]
        return "param_groups" if groups != self._groups else None

    def _read_weights(self) -> list[int]:
        return [each.data_ptr() if each.requires_grad else 0 for each in self._parameters]

    def _read_settings(self) -> list[tuple[dict[str, Any], str, Any]]:
        followed = {id(rate.group) for rate in self._rates}
        return [
            (group, key, value)
            for optimizer in self._pipeline.optimizers
            for group in optimizer.param_groups
            for key, value in group.items()
            if key != "params" and not isinstance(value, Tensor)
            if key != "lr" or id(group) not in followed
        ]


@contextmanager
def _capturing(
    graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, device: torch.device
) -> Iterator[None]:
    """What ``torch.cuda.graph`` does, but that a capture which fails can be lived with.

    torch's own then stays on the capture's stream, hides the error behind the one of ending the
    capture, and leaves the random generator waiting for it: every later draw would raise.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[index]
    spare = generator.clone_state()
    torch.cuda.synchronize(device)
    gc.collect()  # what is freed during a capture is not free for it
    torch.cuda.empty_cache()
    try:
        with torch.cuda.stream(stream):
            # Other threads, such as a loader's that pins memory, may go on meanwhile.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                yield
            except BaseException:
                with suppress(RuntimeError):  # it says only that the capture failed before
                    graph.capture_end()
                raise
            graph.capture_end()
    except BaseException:
        generator.graphsafe_set_state(spare)
        raise


class _Rate:
    """A learning rate on the device that follows the host's, which schedulers move."""

    def __init__(self, group: dict[str, Any], device: torch.device) -> None:
        self.group = group
        self._held = group["lr"]
        # A rate that is a tensor already stays: the graph reads it where it is.
        self.tensor = (
            group["lr"]
            if isinstance(group["lr"], Tensor)
            else torch.tensor(float(group["lr"]), device=device)
        )

    def follow(self) -> None:
        now = self.group["lr"]
        if now is not self._held and now is not self.tensor:
            self._held = now
            self.tensor.fill_(now)


@contextmanager
def _as_tensors(rates: list[_Rate]) -> Iterator[None]:
    host = [rate.group["lr"] for rate in rates]
    for rate in rates:
        rate.group["lr"] = rate.tensor
    try:
        yield
    finally:
        for rate, value in zip(rates, host, strict=True):
            rate.group["lr"] = value


def takes_rate_as_tensor(optimizer: Optimizer) -> bool:
    fused = all(group.get("fused") for group in optimizer.param_groups)
    return isinstance(optimizer, TAKES_RATE_AS_TENSOR) or (
        fused and isinstance(optimizer, FUSED_TAKES_RATE_AS_TENSOR)
    )


def _copy(state: Any, into: Any) -> None:
    for one, other in zip(pytree.tree_leaves(state), pytree.tree_leaves(into), strict=True):
        if isinstance(one, Tensor) and one is not other:
            other.copy_(one)
