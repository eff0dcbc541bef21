"""One captured step: the graph, its inputs, and a watch on all that is baked into it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from hasten.step.eager import EagerStep
from hasten.step.slots import Slots
from hasten.step.tape import Tape
from hasten.step.watch import Baked
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
            _Group(optimizer, place, pipeline.device)
            for optimizer in pipeline.optimizers
            for place in range(len(optimizer.param_groups))
        ]
        self._carried = batches.clone(pipeline.carried_state)
        self._training = pipeline.model.training
        self.misfits = 0
        """Batches since the last replay that were of another shape or mode."""
        self._graph = torch.cuda.CUDAGraph()
        eager.zero_grad()  # before, so that the gradients are made in the graph's own memory
        try:
            with _rates_as_tensors(self._groups), _capturing(self._graph, stream, pipeline.device):
                self._loss = self._compute()
        finally:
            eager.updating = False  # nothing was computed, so that a failure can be redone
        self._norm = eager.gradient_norm
        self._baked = Baked(pipeline)
        self._gradients = [(each, each.grad) for each in self._baked.parameters]
        made = (each for each in self._gradients if each[1] is not None)
        self._sample, self._gradient = next(made, self._gradients[0])

    def _compute(self) -> Tensor:
        pipeline, eager = self._pipeline, self._eager
        pipeline.carried_state = self._carried
        loss = eager.compute(eager.transfer(self._slots.for_capture()))
        _copy(pipeline.carried_state, self._carried)
        pipeline.carried_state = self._carried
        self.tape.write(loss)
        return loss

    def replay(self, batch: Any) -> Tensor | None:
        """A step; None where this batch or this moment is not what was captured.

        What changed is told by ``changed_setting``, ``has_moved`` and the like: here every
        microsecond is the user's, and only whether anything did is looked at. No code of the user
        is called before the weights are new, and the tape comes last, so that it never runs ahead.
        """
        eager, pipeline = self._eager, self._pipeline
        if pipeline.carried_state is not self._carried:
            return None
        if pipeline.model.training is not self._training or not self._baked.stands():
            return None
        for group in self._groups:
            if not group.follows():
                return None
        if not self._slots.take(batch):
            return None
        loss = self.tape.next()
        if loss is None:
            return None
        eager.updating = True
        self._graph.replay()
        if eager.loss is not self._loss or self._sample.grad is not self._gradient:
            self._give_gradients()  # an eager step came between, or the loop emptied them
        if pipeline.schedulers:
            eager.step_schedulers()
        return loss

    def take_state(self) -> bool:
        """Of the epoch that begins, or of an eager step; False where it has another form."""
        pipeline = self._pipeline
        if pipeline.carried_state is None:
            self._eager.start_epoch()
        if not _can_copy(pipeline.carried_state, self._carried):
            return False
        _copy(pipeline.carried_state, self._carried)
        pipeline.carried_state = self._carried
        return True

    def _give_gradients(self) -> None:
        self.misfits = 0
        self._eager.loss, self._eager.gradient_norm = self._loss, self._norm
        for parameter, gradient in self._gradients:
            parameter.grad = gradient

    def is_for(self, batch: Any) -> bool:
        """Whether the batch has the captured shape, in the mode that was captured."""
        return self._pipeline.model.training is self._training and self._slots.fit(batch)

    def changed_setting(self) -> str | None:
        """Which setting of an optimizer is not what it was."""
        changed = [key for group in self._groups for key in group.changed()]
        return changed[0] if changed else None

    def has_moved(self) -> bool:
        """Whether weights, state or parts of the pipeline are not those that were captured."""
        return not self._baked.stands()


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

    def __init__(self, optimizer: Optimizer, place: int, device: torch.device) -> None:
        self._optimizer, self._place = optimizer, place
        self._count = len(optimizer.param_groups)
        self.group = group = optimizer.param_groups[place]
        self.rate: Tensor | None = None
        if takes_rate_as_tensor(optimizer) and not isinstance(group["lr"], Tensor):
            self.rate = torch.tensor(float(group["lr"]), device=device)
        self._parameters = [*group["params"]]
        self._has_tensors = any(isinstance(each, Tensor) for each in group.values())
        self._note()

    def _note(self) -> None:
        self._settings = dict(self.group)
        self._values = [*self.group.values()]

    def _has_its_parameters(self) -> bool:
        groups, parameters = self._optimizer.param_groups, self.group["params"]
        return (
            len(groups) == self._count
            and groups[self._place] is self.group
            and len(parameters) == len(self._parameters)
            and parameters[-1] is self._parameters[-1]
        )

    def follows(self) -> bool:
        """Bring the rate up to date; False where anything else changed."""
        if not self._has_its_parameters():
            return False
        group = self.group
        if self._has_tensors:  # which are told by identity: comparing them waits for the device
            if len(group) == len(self._values) and all(map(is_, group.values(), self._values)):
                return True
        elif list(group.values()) == self._values:
            return True
        if self.changed():
            return False
        if self.rate is not None and group["lr"] != self._settings["lr"]:
            self.rate.fill_(group["lr"])
        self._note()
        return True

    def changed(self) -> list[str]:
        """The settings that are not what they were; those that came or went too."""
        if not self._has_its_parameters():
            return ["params"]
        now, before = self.group, self._settings
        return [key for key in {**before, **now} if not self._is_same(key, now, before)]

    def _is_same(self, key: str, now: dict[str, Any], before: dict[str, Any]) -> bool:
        if key not in now or key not in before:
            return False
        one, other = now[key], before[key]
        if one is other:
            return True
        if isinstance(one, Tensor) or isinstance(other, Tensor):
            return False
        return (key == "lr" and self.rate is not None) or bool(one == other)


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


def _can_copy(state: Any, into: Any) -> bool:
    """Not so for a state that is trained: the graph would not give it its gradient."""
    one, one_form = pytree.tree_flatten(state)
    other, other_form = pytree.tree_flatten(into)
    return one_form == other_form and all(
        isinstance(b, Tensor) and a.shape == b.shape and not a.requires_grad
        if isinstance(a, Tensor)
        else a is b or (not isinstance(b, Tensor) and bool(a == b))
        for a, b in zip(one, other, strict=True)
    )
