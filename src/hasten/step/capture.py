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
from hasten.step.tape import Tape
from hasten.task import batch as batches

TAKES_RATE_AS_TENSOR = (torch.optim.Adam, torch.optim.AdamW)
FUSED_TAKES_RATE_AS_TENSOR = (torch.optim.SGD, torch.optim.Adagrad)


class Capture:
    """Captures at once, which computes nothing. ``replay`` then does a step of a batch."""

    def __init__(self, eager: EagerStep, batch: Any, stream: torch.cuda.Stream) -> None:
        self._eager = eager
        self._pipeline = pipeline = eager.pipeline
        self._slots = Slots(batch, pipeline.device)
        assert eager.loss is not None  # there were steps before this one
        self.tape = Tape(pipeline.device, eager.loss.dtype)
        self._groups = [
            _Group(group, pipeline.device, takes_rate_as_tensor(optimizer))
            for optimizer in pipeline.optimizers
            for group in optimizer.param_groups
        ]
        self._carried = batches.clone(pipeline.carried_state)
        self._parameters = list(pipeline.model.parameters())
        self._training = pipeline.model.training
        self._graph = torch.cuda.CUDAGraph()
        eager.zero_grad()  # before, so that the gradients are made in the graph's own memory
        with _rates_as_tensors(self._groups), _capturing(self._graph, stream, pipeline.device):
            self._loss = self._compute()
        self._norm = eager.gradient_norm
        self._gradients = [each.grad for each in self._parameters]
        self._weights = self._read_weights()

    def _compute(self) -> Tensor:
        pipeline, eager = self._pipeline, self._eager
        pipeline.carried_state = self._carried
        loss = eager.compute(eager.transfer(self._slots.batch))
        _copy(pipeline.carried_state, self._carried)
        pipeline.carried_state = self._carried
        self.tape.write(loss)
        return loss

    def replay(self, batch: Any) -> Tensor | None:
        """A step; None where this batch or this moment is not what was captured.

        What changed is told by ``changed_setting``, ``moved_weights`` and the like: here every
        microsecond is the user's, and only whether anything did is looked at.
        """
        eager, pipeline = self._eager, self._pipeline
        if not self._slots.take(batch) or pipeline.model.training is not self._training:
            return None
        for group in self._groups:
            if not group.follows():
                return None
        if self._read_weights() != self._weights:
            return None
        loss = self.tape.next()
        if loss is None:
            return None
        if pipeline.carried_state is not self._carried:
            self._take_state()
        self._graph.replay()
        if eager.loss is not self._loss:  # an eager step came between
            self._give_gradients()
        if pipeline.schedulers:
            eager.step_schedulers()
        return loss

    def _take_state(self) -> None:
        if self._pipeline.carried_state is None:
            self._eager.start_epoch()
        _copy(self._pipeline.carried_state, self._carried)
        self._pipeline.carried_state = self._carried

    def _give_gradients(self) -> None:
        self._eager.loss, self._eager.gradient_norm = self._loss, self._norm
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient

    def is_for(self, batch: Any) -> bool:
        """Whether the batch has the captured shape, in the mode that was captured."""
        return self._slots.fit(batch) and self._pipeline.model.training is self._training

    def changed_setting(self) -> str | None:
        """Which setting of an optimizer is not what it was."""
        changed = [key for group in self._groups for key in group.changed()]
        groups = sum(len(each.param_groups) for each in self._pipeline.optimizers)
        return changed[0] if changed else "param_groups" if groups != len(self._groups) else None

    def _read_weights(self) -> list[int]:
        """Where parameters are, and which are trained."""
        return [each.data_ptr() if each.requires_grad else 0 for each in self._parameters]


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


class _Group:
    """The settings of a parameter group as they were captured.

    The learning rate is on the device and follows the host's, which schedulers move, where the
    optimizer takes it from there; everything else is baked in.
    """

    def __init__(self, group: dict[str, Any], device: torch.device, rate_on_device: bool) -> None:
        self.group = group
        self.rate: Tensor | None = None
        if rate_on_device and not isinstance(group["lr"], Tensor):
            self.rate = torch.tensor(float(group["lr"]), device=device)
        self._values = list(group.values())

    def follows(self) -> bool:
        """Bring the rate up to date; False where anything else changed."""
        # Lists compare by identity first, so that tensors in them are never looked into.
        if list(self.group.values()) == self._values:
            return True
        if self.changed():
            return False
        assert self.rate is not None  # else the rate itself has changed
        self.rate.fill_(self.group["lr"])
        self._values = list(self.group.values())
        return True

    def changed(self) -> list[str]:
        pairs = zip(self.group.items(), self._values, strict=False)
        others = [key for (key, now), was in pairs if now is not was and now != was]
        return [key for key in others if key != "lr" or self.rate is None]


@contextmanager
def _rates_as_tensors(groups: list[_Group]) -> Iterator[None]:
    host = [each.group["lr"] for each in groups]
    for each in groups:
        if each.rate is not None:
            each.group["lr"] = each.rate
    try:
        yield
    finally:
        for each, value in zip(groups, host, strict=True):
            each.group["lr"] = value


def takes_rate_as_tensor(optimizer: Optimizer) -> bool:
    fused = all(group.get("fused") for group in optimizer.param_groups)
    return isinstance(optimizer, TAKES_RATE_AS_TENSOR) or (
        fused and isinstance(optimizer, FUSED_TAKES_RATE_AS_TENSOR)
    )


def _copy(state: Any, into: Any) -> None:
    for one, other in zip(pytree.tree_leaves(state), pytree.tree_leaves(into), strict=True):
        if isinstance(one, Tensor) and one is not other:
            other.copy_(one)
