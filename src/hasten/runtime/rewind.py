"""What a failed step must be redone from, noted before every step at next to no cost.

A step that fails before its optimizer has left the weights alone. What may have moved are buffers
(such as BatchNorm's statistics), attributes of modules, random generators, carried state, and
gradients of parameters that no optimizer has; those of the others are made anew by each step.
Small buffers are copied each time, since kernels such as BatchNorm's write to them without telling;
a large one, such as a mask, only where its version tells that it moved. Attributes are noted of
modules that are not torch's own. The generators of Python and NumPy are slow to read, and noted
only where the first step drew from them.

Limits: what modules keep deeper than one container, a large buffer written to through ``.data``,
and draws of Python or NumPy that begin after the first step are not put back.
"""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from hasten.step.eager import EagerStep
from hasten.task import batch as batches
from hasten.task.seed import host_random_state, restore_host_random_state
from hasten.task.settings import SMALL, Attributes, is_torchs


class Rewind:
    """``note`` before each step, ``restore`` after one that failed."""

    def __init__(self, eager: EagerStep, *, draws_on_host: bool) -> None:
        self._eager = eager
        self._draws_on_host = draws_on_host
        pipeline = eager.pipeline
        modules = list(pipeline.model.modules())
        self._users_own = [each for each in modules if not is_torchs(each)]
        self._holders = [each for each in modules if each._buffers or not is_torchs(each)]
        self._copies: dict[int, _Copy] = {}
        self._tables: list[tuple[nn.Module, dict[str, Tensor | None]]] = []
        self._generators = [torch.default_generator]
        device = pipeline.device
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators.append(torch.cuda.default_generators[index])
        updated = set(map(id, pipeline.optimized()))
        self._left_alone = [p for p in pipeline.model.parameters() if id(p) not in updated]
        self.note()

    def note(self) -> None:
        eager = self._eager
        eager.updating = False
        self._states = [each.get_state() for each in self._generators]
        if self._draws_on_host:
            self._host = host_random_state()
        self._attributes = Attributes(self._users_own)
        carried = eager.pipeline.carried_state
        self._carried = None if carried is None else batches.clone(carried)
        self._gradients = [_clone(each.grad) for each in self._left_alone]
        if self._holders:
            self._tables = [(module, dict(module._buffers)) for module in self._holders]
            self._follow()

    def _follow(self) -> None:
        """Bring the copies of buffers up to date, in one kernel a type."""
        behind: defaultdict[torch.dtype, list[_Copy]] = defaultdict(list)
        for _, table in self._tables:
            for buffer in table.values():
                if buffer is None:
                    continue
                held = self._copies.get(id(buffer))
                if held is None or held.buffer is not buffer:
                    self._copies[id(buffer)] = _Copy(buffer)
                elif held.is_behind():
                    behind[buffer.dtype].append(held)
        for alike in behind.values():
            _update(alike)

    @torch.no_grad()
    def restore(self) -> bool:
        """Put everything back; False where weights may have been touched, and nothing is."""
        if self._eager.updating:
            return False
        for module, table in self._tables:
            module._buffers.clear()
            module._buffers.update(table)
            for buffer in table.values():
                if buffer is not None and self._copies[id(buffer)].is_behind():
                    buffer.copy_(self._copies[id(buffer)].copy)
        self._attributes.restore()
        if self._draws_on_host:
            restore_host_random_state(self._host)
        for generator, state in zip(self._generators, self._states, strict=True):
            generator.set_state(state)
        pipeline = self._eager.pipeline
        pipeline.carried_state = self._carried
        for parameter, gradient in zip(self._left_alone, self._gradients, strict=True):
            parameter.grad = gradient
        if pipeline.scaler is not None:
            pipeline.scaler._per_optimizer_states.clear()  # what this step had unscaled
        return True


class _Copy:
    """Of a buffer; a large one's is on the host while it never moves."""

    def __init__(self, buffer: Tensor) -> None:
        self.buffer, self.version = buffer, buffer._version
        where = buffer.device if buffer.numel() <= SMALL else torch.device("cpu")
        self.copy = buffer.detach().to(where, copy=True)

    def is_behind(self) -> bool:
        return self.buffer.numel() <= SMALL or self.buffer._version != self.version


@torch.no_grad()
def _update(copies: list[_Copy]) -> None:
    for held in copies:
        held.version = held.buffer._version
        if held.copy.device != held.buffer.device:  # what moves once moves at every step
            held.copy = torch.empty_like(held.buffer)
    torch._foreach_copy_([held.copy for held in copies], [held.buffer.detach() for held in copies])


def _clone(gradient: Any) -> Any:
    return None if gradient is None else gradient.clone()
