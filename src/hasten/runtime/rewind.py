"""What a failed step must be redone from, noted before every step at next to no cost.

A step that fails before its optimizer has left the weights alone. What may have moved are buffers
(such as BatchNorm's statistics), random generators, carried state and gradients; the last are made
anew by each step. A buffer is copied only where its version tells that it moved since the last
copy, so that a mask that never moves is copied once. The generators of Python and NumPy are slow to
read, and noted only where the first step was seen to draw on the host.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

from hasten.step.eager import EagerStep
from hasten.task.seed import host_random_state, restore_host_random_state


class Rewind:
    """``note`` before each step, ``restore`` after one that failed."""

    def __init__(self, eager: EagerStep, *, draws_on_host: bool) -> None:
        self._eager = eager
        self._draws_on_host = draws_on_host
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
        for generator, state in zip(self._generators, self._states, strict=True):
            generator.set_state(state)
        pipeline = self._eager.pipeline
        pipeline.carried_state = self._carried
        if pipeline.scaler is not None:
            pipeline.scaler._per_optimizer_states.clear()  # what this step had unscaled
        return True


class _Shadow:
    """A buffer of a module and a copy of it: on the host while it never moves."""

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
        return buffer._version != self.version

    def restore(self) -> None:
        if self._module._buffers[self._name] is not self.buffer:
            self._module._buffers[self._name] = self.buffer
        if self.buffer._version != self.version:
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
