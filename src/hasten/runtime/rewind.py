"""What a failed step must be redone from, noted before every step at next to no cost.

A step that fails before its optimizer has left the weights alone. What may have moved are buffers
(such as BatchNorm's statistics), random generators, carried state and gradients; the last are made
anew by each step. Small buffers are copied each time, since kernels such as BatchNorm's write to
them without telling; a large one, such as a mask, only where its version tells that it moved. What
is slow to read, the generators of Python and NumPy and attributes of modules such as
counters, is noted only as far as the first step moved it.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

from hasten.step.eager import EagerStep
from hasten.task.seed import (
    host_random_state,
    restore_host_random_state,
    same_host_random_state,
)
from hasten.task.settings import plain_attributes, restore_attributes

SMALL = 65_536
"""Elements."""


class Rewind:
    """``note`` before each step, ``restore`` after one that failed."""

    def __init__(self, eager: EagerStep, before: "HostState") -> None:
        """``before``: taken before the first step, which is done by now."""
        self._eager = eager
        self._draws_on_host, self._counters = before.what_moved()
        pipeline = eager.pipeline
        self._shadows = [
            _Shadow(module, name)
            for module in pipeline.model.modules()
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        device = pipeline.device
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators.append(torch.cuda.default_generators[index])
        self.note()

    def note(self) -> None:
        self._eager.updating = False
        self._states = [each.get_state() for each in self._generators]
        if self._draws_on_host:
            self._host = host_random_state()
        self._attributes = {(module, key): vars(module)[key] for module, key in self._counters}
        self._carried = self._eager.pipeline.carried_state
        moved = [shadow for shadow in self._shadows if shadow.is_behind()]
        if moved:
            _follow(moved)

    @torch.no_grad()
    def restore(self) -> bool:
        """Put everything back; False where the weights were touched, and nothing is."""
        if self._eager.updating:
            return False
        for shadow in self._shadows:
            shadow.restore()
        if self._draws_on_host:
            restore_host_random_state(self._host)
        restore_attributes(self._attributes)
        for generator, state in zip(self._generators, self._states, strict=True):
            generator.set_state(state)
        pipeline = self._eager.pipeline
        pipeline.carried_state = self._carried
        if pipeline.scaler is not None:
            pipeline.scaler._per_optimizer_states.clear()  # what this step had unscaled
        return True


class HostState:
    """Of Python's and NumPy's random generators and of all that modules keep as plain values."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._random = host_random_state()
        self._attributes = plain_attributes(model)

    def what_moved(self) -> tuple[bool, list[tuple[nn.Module, str]]]:
        """Whether draws were made on the host, and the attributes that are not what they were."""
        now = plain_attributes(self._model)
        changed = [place for place in now if now[place] != self._attributes.get(place)]
        return not same_host_random_state(self._random), changed


class _Shadow:
    """A buffer of a module and a copy of it; a large one's is on the host while it never moves."""

    def __init__(self, module: nn.Module, name: str) -> None:
        self._module, self._name = module, name
        self._take(self.now())

    def now(self) -> Tensor:
        buffer = self._module._buffers[self._name]
        assert buffer is not None  # such are not watched
        return buffer

    def _take(self, buffer: Tensor) -> None:
        self.buffer, self.version = buffer, buffer._version
        self.copy = buffer.detach().to("cpu", copy=True)

    def is_behind(self) -> bool:
        buffer = self._module._buffers[self._name]
        if buffer is not self.buffer:  # the model has put another tensor in its place
            self._take(self.now())
            return False
        return buffer.numel() <= SMALL or buffer._version != self.version

    def restore(self) -> None:
        if self._module._buffers[self._name] is not self.buffer:
            self._module._buffers[self._name] = self.buffer
        if self.buffer.numel() <= SMALL or self.buffer._version != self.version:
            self.buffer.copy_(self.copy)


@torch.no_grad()
def _follow(shadows: list[_Shadow]) -> None:
    """Copy in one kernel a type, beside the buffers: what moves once moves at every step."""
    alike: defaultdict[torch.dtype, list[_Shadow]] = defaultdict(list)
    for shadow in shadows:
        shadow.version = shadow.buffer._version
        if shadow.copy.device != shadow.buffer.device:
            shadow.copy = torch.empty_like(shadow.buffer)
        alike[shadow.buffer.dtype].append(shadow)
    for each in alike.values():
        torch._foreach_copy_([one.copy for one in each], [one.buffer.detach() for one in each])
