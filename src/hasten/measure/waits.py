"""Which calls make the host wait for the device.

A copy between host and device waits unless it is ``non_blocking``. Whatever gives Python a value,
or a tensor whose size depends on values, waits for them. What is settled by shapes alone does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hasten.measure.whereabouts import Call, tensors_in
from hasten.records.profile import SyncKind

_Rule = Callable[[Call], SyncKind | None]


def kind_of_wait(call: Call) -> SyncKind | None:
    """What it waits for; None where it does not."""
    rule = _RULES.get(call.func)
    return rule(call) if rule is not None else None


def _both(*names: str) -> list[Any]:
    """Of torch and of its tensors, where they have it."""
    homes = (torch, Tensor)
    return [getattr(home, name) for name in names for home in homes if hasattr(home, name)]


def _for_any_tensor(kind: SyncKind) -> _Rule:
    return lambda call: kind if call.any_on_device() else None


def _to(call: Call) -> SyncKind | None:
    target = call.target()
    if target is None or _is_non_blocking(call) or target == call.on_device(call.args[0]):
        return None
    return "copy" if target else "cpu"


def _is_non_blocking(call: Call) -> bool:
    given = (each for each in call.args[1:] if isinstance(each, bool))
    return bool(call.kwargs.get("non_blocking", next(given, False)))


def _copy(call: Call) -> SyncKind | None:
    target, source = call.on_device(call.args[0]), call.on_device(call.args[1])
    if target == source or _is_non_blocking(call):
        return None
    return "copy" if target else "cpu"


def _make(call: Call) -> SyncKind | None:
    """Of values that Python has: they are copied to the device that is named, unless it has them;
    those of a device's tensors in a list are read one by one."""
    values = call.args[-1] if call.args else None
    if isinstance(values, list | tuple) and any(map(call.on_device, tensors_in(values))):
        return "item"
    new = call.func is Tensor.new_tensor
    target = call.on_device(call.args[0]) if new and call.target() is None else call.target()
    return "copy" if target and not call.on_device(values) else None


def _index(call: Call) -> SyncKind | None:
    parts = _parts(call.args[1])
    if not call.on_device(call.args[0]):
        return None
    if any(map(_is_mask, parts)):
        return None if _fills(call, parts) else "mask"
    if any(_is_read(call, part) for part in parts):
        return "item"
    return "copy" if any(_is_carried(call, part) for part in parts) else None


def _assign(call: Call) -> SyncKind | None:
    """A number of the host's fills what slices or a mask choose without a copy, and only that."""
    tensor, parts, value = call.args[0], _parts(call.args[1]), call.args[2]
    waits = _index(call)
    if waits is not None or not call.on_device(tensor) or call.on_device(value):
        return waits
    if _fills(call, parts):
        return None
    many = isinstance(value, Tensor) and value.dim() > 0
    one_place = len(parts) == tensor.dim() and all(isinstance(part, int) for part in parts)
    scattered = any(isinstance(part, Tensor) for part in parts)
    return "copy" if many or one_place or scattered else None


def _parts(key: Any) -> tuple[Any, ...]:
    return tuple(key) if isinstance(key, tuple) else (key,)


def _is_mask(part: Any) -> bool:
    return isinstance(part, Tensor | np.ndarray) and str(part.dtype).endswith(("bool", "uint8"))


def _fills(call: Call, parts: tuple[Any, ...]) -> bool:
    """One number to where one mask says: no place has to be known for that."""
    if len(call.args) < 3 or sum(map(_is_mask, parts)) != 1:
        return False
    value = call.args[2]
    return not isinstance(value, Tensor) or (value.numel() == 1 and not call.on_device(value))


def _is_read(call: Call, part: Any) -> bool:
    """A number of the device's where Python wants one of its own."""
    if isinstance(part, slice):
        return any(map(call.on_device, tensors_in(part)))
    return call.on_device(part) and part.dim() == 0


def _is_carried(call: Call, part: Any) -> bool:
    """Row numbers that the host has."""
    if isinstance(part, Tensor):
        return part.dim() > 0 and not call.on_device(part)
    return isinstance(part, list | np.ndarray)


def _where(call: Call) -> SyncKind | None:
    alone = len(call.args) + len(call.kwargs) == 1
    return "nonzero" if alone and call.any_on_device() else None


def _repeat(call: Call) -> SyncKind | None:
    repeats = call.kwargs.get("repeats", call.args[min(1, len(call.args) - 1)])
    told = call.kwargs.get("output_size") is not None
    return "nonzero" if call.on_device(repeats) and not told else None


def _one_hot(call: Call) -> SyncKind | None:
    classes = call.kwargs.get("num_classes", call.args[1] if len(call.args) > 1 else -1)
    return "nonzero" if classes == -1 and call.any_on_device() else None


_FACTORIES = ("zeros", "ones", "empty", "full", "arange", "linspace", "rand", "randn", "randint")
_RULES: dict[Any, _Rule] = {
    **dict.fromkeys(
        _both("item", "__float__", "__int__", "__index__", "__complex__", *_FACTORIES),
        _for_any_tensor("item"),
    ),
    **dict.fromkeys(
        _both("__bool__", "is_nonzero", "equal", "allclose", "__contains__"),
        _for_any_tensor("bool"),
    ),
    **dict.fromkeys(_both("numpy", "__array__"), _for_any_tensor("numpy")),
    Tensor.tolist: _for_any_tensor("tolist"),
    **dict.fromkeys(_both("__repr__", "__format__"), _for_any_tensor("print")),
    **dict.fromkeys(
        _both("nonzero", "argwhere", "unique", "unique_consecutive", "bincount"),
        _for_any_tensor("nonzero"),
    ),
    **dict.fromkeys(_both("masked_select"), _for_any_tensor("mask")),
    **dict.fromkeys([Tensor.cpu, Tensor.to, Tensor.cuda, Tensor.type_as], _to),
    Tensor.copy_: _copy,
    **dict.fromkeys([torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor], _make),
    Tensor.__getitem__: _index,
    Tensor.__setitem__: _assign,
    **dict.fromkeys(_both("index_put", "index_put_"), _assign),
    **dict.fromkeys(_both("where"), _where),
    **dict.fromkeys(_both("repeat_interleave"), _repeat),
    torch.nn.functional.one_hot: _one_hot,
}
