"""Which tensors are on the device, or would be if there were one."""

import re
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from hasten.measure.frames import expression

_HOST_BY_NAME = re.compile(r"""['"]cpu['"]""")
_TAKES_A_TARGET = {Tensor.to, Tensor.type_as}


class Whereabouts(Protocol):
    in_backward: int
    """How many backward passes are under way, one inside of another."""

    def on_device(self, tensor: Tensor) -> bool: ...

    def names_device(self, named: Any, frame: FrameType) -> bool:
        """Whether a device that the caller names is the one that is trained on."""

    def mark(self, tensors: Iterable[Tensor]) -> None:
        """These are on the device."""

    def settle(self, call: "Call", result: Any) -> Any:
        """Note where a result is, and give it to the caller."""


class Call:
    """One call of a function of torch, before it is done."""

    __slots__ = ("args", "frame", "func", "kwargs", "where")

    def __init__(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
        where: Whereabouts,
    ) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.frame, self.where = frame, where

    def on_device(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self.where.on_device(value)

    def tensors(self) -> Iterator[Tensor]:
        return tensors_in((self.args, self.kwargs))

    def any_on_device(self) -> bool:
        return any(map(self.where.on_device, self.tensors()))

    def target(self) -> bool | None:
        """Whether the result is asked to be on the device; None where nothing is asked."""
        if self.func is Tensor.cpu:
            return False
        if self.func is Tensor.cuda:
            return True
        if (device := self.kwargs.get("device")) is not None:
            return self.where.names_device(device, self.frame)
        for each in self.args[1:] if self.func in _TAKES_A_TARGET else ():
            if isinstance(each, Tensor):
                return self.where.on_device(each)
            if isinstance(each, str | torch.device):
                return self.where.names_device(each, self.frame)
        other = self.kwargs.get("other") if self.func in _TAKES_A_TARGET else None
        return self.where.on_device(other) if isinstance(other, Tensor) else None


class OnAccelerator:
    """Tensors know."""

    def __init__(self) -> None:
        self.in_backward = 0

    def on_device(self, tensor: Tensor) -> bool:
        return tensor.device.type != "cpu"

    def names_device(self, named: Any, frame: FrameType) -> bool:
        return torch.device(named).type != "cpu"

    def mark(self, tensors: Iterable[Tensor]) -> None: ...

    def settle(self, call: Call, result: Any) -> Any:
        return result


class Supposed:
    """On a CPU: what an accelerator would hold.

    Method: weights, buffers and batches would be on the device, and so would all that is computed
    from them, that requires a gradient, that a backward pass brings, or that is made on a named
    device. A device counts as the host where the call spells "cpu"; a variable that holds it is
    taken for the device of the training.
    """

    def __init__(self) -> None:
        self.in_backward = 0
        self._known = WeakIdKeyDictionary()

    def on_device(self, tensor: Tensor) -> bool:
        known = self._known.get(tensor)  # type: ignore[no-untyped-call]
        return tensor.requires_grad or self.in_backward > 0 if known is None else bool(known)

    def names_device(self, named: Any, frame: FrameType) -> bool:
        return not _HOST_BY_NAME.search(expression(frame))

    def mark(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            self._known[tensor] = True

    def settle(self, call: Call, result: Any) -> Any:
        if not isinstance(result, Tensor | tuple | list):
            return result
        target = call.target()
        on_device = call.any_on_device() if target is None else target
        given = {id(each) for each in call.tensors()}
        if isinstance(result, Tensor) and id(result) in given and target is not None:
            if self.on_device(result) == target:
                return result
            # A move would have made a tensor of its own, and the one that was given stays put.
            result = torch.ops.aten.alias(result)
        for tensor in tensors_in(result):
            # What is written to in place has been there, unless it was copied to.
            if id(tensor) not in given or (on_device and call.func is not Tensor.copy_):
                self._known[tensor] = on_device
        return result


def tensors_in(value: Any) -> Iterator[Tensor]:
    """In containers and slices of Python's own."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, slice):
        yield from tensors_in((value.start, value.stop, value.step))
