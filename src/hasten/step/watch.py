"""What a replay would not see: what a step does on the host, and what has moved since a capture."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter, is_
from typing import Any, TextIO

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from hasten.task.pipeline import Pipeline
from hasten.task.seed import host_random_state, same_host_random_state

SYNC = "called a synchronizing CUDA operation"
PROTOTYPE = "Synchronization debug mode is a prototype"


@contextmanager
def hearing_syncs(on_sync: Callable[[str, int], None]) -> Iterator[None]:
    """Call ``on_sync`` with the file and line of each wait for the device, while Python is there.

    Method: torch's own sync debugging, as warnings, which stand at the line of Python that waited.
    Other warnings are shown as they would have been.
    """
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=f".*{SYNC}")
        warnings.filterwarnings("ignore", message=f".*{PROTOTYPE}")
        show = warnings.showwarning

        def hear(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if SYNC in str(message):
                on_sync(filename, lineno)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = hear
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


@contextmanager
def noting_syncs() -> Iterator[list[str]]:
    """The places that make the host wait for the device, filled in as it waits."""
    found: list[str] = []
    with hearing_syncs(lambda filename, line: found.append(f"{filename}:{line}")):
        yield found


class HostState:
    """Of the host's random generators and of all that modules and optimizers keep in Python."""

    def __init__(self, model: nn.Module, optimizers: Iterable[Optimizer] = ()) -> None:
        self._model, self._optimizers = model, list(optimizers)
        self._random = host_random_state()
        self._attributes = _attributes(model)
        self._states = [_leaves(each) for each in self._optimizers]

    def what_moved(self) -> str | None:
        """In words; None where nothing did."""
        if not same_host_random_state(self._random):
            return "the step draws random numbers on the host"
        now = _attributes(self._model)
        changed = [key for key in now if now[key] != self._attributes.get(key)]
        if changed:
            return f"the step changes {changed[0]} of the model"
        for optimizer, leaves in zip(self._optimizers, self._states, strict=True):
            if not _alike(_leaves(optimizer), leaves):
                return f"{type(optimizer).__name__} keeps another state after each step"
        return None


def _attributes(model: nn.Module) -> dict[str, Any]:
    """Plain values as they are, tensors by what they are, containers by their length."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        for key, value in (*vars(module).items(), *module._buffers.items()):
            where = f"{name}.{key}" if name else key
            if isinstance(value, bool | int | float | str):
                found[where] = value
            elif isinstance(value, Tensor):
                found[where] = id(value)
            elif isinstance(value, list | set | dict) and not key.startswith("_"):
                found[where] = len(value)
    return found


def _leaves(optimizer: Optimizer) -> list[Any]:
    return pytree.tree_leaves([*optimizer.state.values()])


def _alike(now: list[Any], before: list[Any]) -> bool:
    """The same tensors, written to in place or not, beside values that did not move."""
    return len(now) == len(before) and all(
        one is other or (isinstance(one, bool | int | float | str) and one == other)
        for one, other in zip(now, before, strict=True)
    )


class Baked:
    """What a captured step has baked in, but for the settings of the optimizers.

    All of it is kept alive: a graph reads and writes where it was, whoever else has let go of it.
    ``stands`` is asked before each replay, and so it compares identities and addresses only.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._settings = _settings(pipeline)
        self._states = [_State(each) for each in pipeline.optimizers]
        self._scaler = _scaler_values(pipeline.scaler)
        modules = [*pipeline.model.modules()]
        homes: list[dict[str, Any]] = [each._parameters for each in modules]
        homes += [each._buffers for each in modules]
        homes.append({"": _END})
        self._in_modules = [each.values() for each in homes if each]
        self._were_in_modules = [*chain.from_iterable(self._in_modules)]
        self.parameters = pipeline.trained()
        buffers = [each for each in pipeline.model.buffers() if each.layout is torch.strided]
        self._tensors = [*self.parameters, *buffers]
        self._places = [*map(_PLACE, self._tensors)]
        self._trained = [*map(_TRAINED, self.parameters)]
        optimized = {id(each) for each in pipeline.optimized()}
        self._summed = [
            (each, each.grad)
            for each in self.parameters
            if id(each) not in optimized and each.grad is not None
        ]
        """Gradients that no optimizer empties: they add up from step to step."""
        self._memory = [each.detach() for each in self._tensors]
        """Their own hold on where weights and buffers were, should these be put elsewhere."""

    def stands(self) -> bool:
        pipeline = self._pipeline
        if _settings(pipeline) != self._settings:
            return False
        if self._scaler and not all(map(is_, _scaler_values(pipeline.scaler), self._scaler)):
            return False
        if len(pipeline.optimizers) != len(self._states):
            return False
        for state in self._states:
            if not state.stands():
                return False
        for parameter, gradient in self._summed:
            if parameter.grad is not gradient:
                return False
        return (
            all(map(is_, chain.from_iterable(self._in_modules), self._were_in_modules))
            and [*map(_PLACE, self._tensors)] == self._places
            and [*map(_TRAINED, self.parameters)] == self._trained
        )


_END = object()
"""Behind the tensors of all modules, so that one more or one less is told too."""
_PLACE = Tensor.data_ptr
_TRAINED = attrgetter("requires_grad")


class _State:
    """Of one optimizer, told by its size and by what it holds for one parameter."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._state, self._size = optimizer.state, len(optimizer.state)
        self._memory = _leaves(optimizer)
        self._parameter: Any = None
        self._held: dict[str, Any] = {}
        for parameter, held in optimizer.state.items():
            if isinstance(held, dict) and any(isinstance(each, Tensor) for each in held.values()):
                self._parameter, self._held = parameter, held
                break
        self._values = [*self._held.values()]

    def stands(self) -> bool:
        state = self._optimizer.state
        if state is not self._state or len(state) != self._size:
            return False
        if self._parameter is None:
            return True
        held = state.get(self._parameter)
        return held is self._held and all(map(is_, held.values(), self._values))


def _settings(pipeline: Pipeline) -> tuple[Any, ...]:
    return (
        pipeline.model,
        pipeline.forward,
        pipeline.transfer,
        pipeline.clip_norm,
        pipeline.micro_batches,
        pipeline.scaler,
    )


def _scaler_values(scaler: torch.amp.GradScaler | None) -> tuple[Any, ...]:
    if scaler is None or not scaler.is_enabled():
        return ()
    return (
        scaler._scale,
        scaler._growth_tracker,
        scaler._growth_factor,
        scaler._backoff_factor,
        scaler._growth_interval,
    )
