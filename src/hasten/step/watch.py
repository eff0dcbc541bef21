"""What a step does on the host that a replay of its kernels would not do."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hasten.task.seed import host_random_state, same_host_random_state

SYNC = "called a synchronizing CUDA operation"
PROTOTYPE = "Synchronization debug mode is a prototype"


@contextmanager
def noting_syncs() -> Iterator[list[str]]:
    """The places that make the host wait for the device, filled in when the block ends.

    Method: torch's own sync debugging, as warnings, which stand at the line of Python that waited.
    Other warnings are given again.
    """
    found: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for each in caught:
        if SYNC in str(each.message):
            found.append(f"{each.filename}:{each.lineno}")
        elif PROTOTYPE not in str(each.message):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


class HostState:
    """Of the random generators on the host and of all that modules keep in Python."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._random = host_random_state()
        self._attributes = _attributes(model)

    def what_moved(self) -> str | None:
        """In words; None where nothing did."""
        if not same_host_random_state(self._random):
            return "the step draws random numbers on the host"
        now = _attributes(self._model)
        changed = [key for key in now if now[key] != self._attributes.get(key)]
        return f"the step changes {changed[0]} of the model" if changed else None


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
