"""What modules keep in Python beside parameters and buffers: rates, modes, counters, lists."""

import copy
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Plain = bool | int | float | str
INTERNAL = frozenset(vars(nn.Module())) - {"training"}
"""Attributes that every module has for torch's own use."""
SMALL = 65_536
"""Elements of a tensor that is copied whether it is known to move or not."""


def plain_attributes(model: nn.Module) -> dict[tuple[nn.Module, str], Plain]:
    """Of every module, by the module itself and the attribute's name."""
    return {
        (module, key): value
        for module in model.modules()
        for key, value in vars(module).items()
        if isinstance(value, Plain)
    }


class Attributes:
    """All attributes of some modules as they are now: to the value, containers to their elements,
    small tensors to their numbers. What lies deeper, and large tensors, by reference only."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._kept = [
            (vars(module), {k: _keep(v) for k, v in vars(module).items() if k not in INTERNAL})
            for module in modules
        ]

    @torch.no_grad()
    def restore(self) -> None:
        for now, kept in self._kept:
            for key in now.keys() - kept.keys() - INTERNAL:
                del now[key]  # it has come since
            for key, give_back in kept.items():
                now[key] = give_back()


def is_torchs(module: nn.Module) -> bool:
    """Whether torch wrote it, so that what it keeps is known."""
    return type(module).__module__.partition(".")[0] == "torch"


def _keep(value: Any) -> Callable[[], Any]:
    if isinstance(value, list | dict | set | deque):
        return partial(refill, value, copy.copy(value))
    if isinstance(value, Tensor) and value.numel() <= SMALL:
        return partial(_rewrite, value, value.detach().clone())
    return lambda: value


def refill(container: Any, held: Any) -> Any:
    """The same container, which others may hold too."""
    container.clear()
    container.extend(held) if isinstance(container, list | deque) else container.update(held)
    return container


def _rewrite(tensor: Tensor, held: Tensor) -> Tensor:
    tensor.data.copy_(held)
    return tensor
