"""What a dataset holds: itself, its attributes, what these hold, and so on; and a digest of it all.

Open files and the like count as nothing, so that one may be opened late and read from.
"""

import functools
import hashlib
import io
import logging
import mmap
import pathlib
import random
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hasten.data.freezing.known import is_read

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, range, slice})
CONTAINERS = (list, tuple, set, frozenset, deque)
ATOMS = (
    Tensor,
    np.ndarray,
    np.generic,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    type(np.sort),  # most functions of NumPy
    logging.Logger,
    pathlib.PurePath,
)
UNOPENED = frozenset({"pandas", "pyarrow", "PIL", "scipy"})
"""Libraries whose objects keep notes of their own; they are told by where they lie in memory."""
HANDLES = frozenset({"h5py", "zipfile", "_io", "mmap"})
SMALL = 2**16
"""Bytes, or entries: what is larger is looked at in places, unless all of it is asked for."""


def is_handle(value: object) -> bool:
    module = type(value).__module__.partition(".")[0]
    return isinstance(value, io.IOBase | mmap.mmap) or module in HANDLES


def parts_of(value: Any) -> Iterator[Any]:
    """What ``value`` holds directly."""
    if isinstance(value, dict | types.MappingProxyType):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, CONTAINERS):
        yield from value
    elif _holds_objects(value):
        yield from value.reshape(-1).tolist()
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, types.FunctionType):
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        yield from cells_of(value).values()
    elif not _is_whole(value):
        yield from attributes_of(value).values()


def _holds_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.hasobject


def cells_of(function: types.FunctionType) -> dict[str, Any]:
    """What it took with it from where it was made."""
    names = function.__code__.co_freevars
    cells = zip(names, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def attributes_of(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _is_whole(value: Any) -> bool:
    """Whether nothing inside it is looked at."""
    module = type(value).__module__.partition(".")[0]
    inside = isinstance(value, ATOMS)
    return type(value) in PLAIN or inside or module in UNOPENED or _random_state(value) is not None


def everything_in(root: Any) -> Iterator[Any]:
    """The root, and all that it holds, each once; plain numbers and words left out."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if type(value) in PLAIN or id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        waiting.extend(parts_of(value))


def state_of(*roots: Any, whole: bool = True) -> str:
    """A digest of everything that they hold; it changes when any of it does.

    With ``whole=False`` large tensors, arrays and containers are looked at in places only.
    """
    hasher = hashlib.blake2b(digest_size=16)
    seen: dict[int, int] = {}
    keep: list[Any] = []  # so that no two of them have the same id

    def feed(value: Any) -> None:
        if type(value) in PLAIN or is_handle(value):
            hasher.update(b"" if value is None or is_handle(value) else repr(value).encode())
            return
        if id(value) in seen:
            hasher.update(f"again {seen[id(value)]}".encode())
            return
        seen[id(value)] = len(seen)
        keep.append(value)
        hasher.update(type(value).__qualname__.encode())
        _describe(value, hasher.update, whole)
        for part in _looked_at(value, whole):
            feed(part)
            hasher.update(b",")

    for root in roots:
        feed(root)
    return hasher.hexdigest()


def _describe(value: Any, tell: Callable[[bytes], None], whole: bool) -> None:
    """What is not among its parts."""
    generator = _random_state(value)
    if generator is not None:
        tell(repr(generator).encode())
    elif isinstance(value, Tensor):
        tell(f"{value.dtype}{tuple(value.shape)}{value._version}{value.device}".encode())
        if value.device.type == "cpu" and value.layout == torch.strided:
            flat = value.detach().reshape(-1)
            _tell_bytes(flat.contiguous().view(torch.uint8).numpy(), tell, whole)
    elif isinstance(value, np.ndarray):
        tell(f"{value.dtype}{value.shape}".encode())
        if value.flags.writeable and not value.dtype.hasobject:
            _tell_bytes(np.ascontiguousarray(value).reshape(-1).view(np.uint8), tell, whole)
    elif isinstance(value, np.generic | pathlib.PurePath):
        tell(repr(value).encode())
    elif _is_whole(value):
        tell(str(id(value)).encode())
    elif isinstance(value, (*CONTAINERS, dict)):
        tell((repr(value) if _is_flat(value, whole) else str(len(value))).encode())
    else:
        names = [name for name, held in attributes_of(value).items() if _counts(held)]
        tell(repr(names).encode())


def _tell_bytes(array: "np.ndarray[Any, Any]", tell: Callable[[bytes], None], whole: bool) -> None:
    if len(array) <= SMALL:
        tell(array.tobytes())
    elif whole:
        tell(str(zlib.crc32(array.data)).encode())
    else:
        tell(array[:: len(array) // 4096].tobytes())


def _looked_at(value: Any, whole: bool) -> Iterator[Any]:
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        yield from parts_of(value)
    elif _holds_objects(value):
        yield value.reshape(-1).tolist()
    elif _is_flat(value, whole):
        return
    elif isinstance(value, (*CONTAINERS, dict)) and not whole and len(value) > SMALL:
        held = list(value.items() if isinstance(value, dict) else value)
        yield from (held[place] for place in range(0, len(held), len(held) // 100))
    elif isinstance(value, (*CONTAINERS, dict)):
        yield from parts_of(value)
    elif not _is_whole(value):
        yield from (held for held in attributes_of(value).values() if _counts(held))
        for kind in type(value).__mro__:
            if is_read(kind.__module__):
                yield from (held for held in vars(kind).values() if _is_data(held))


def _is_flat(value: Any, whole: bool) -> bool:
    """A container of nothing but plain values, which is shown by how it prints."""
    if not isinstance(value, CONTAINERS) or (len(value) > SMALL and not whole):
        return False
    return set(map(type, value)) <= PLAIN


def _counts(held: object) -> bool:
    return held is not None and not is_handle(held)


def _is_data(held: object) -> bool:
    """Of a class: what instances share, such as a counter."""
    return type(held) in PLAIN - {str, type(None)} or isinstance(
        held, list | dict | set | deque | Tensor | np.ndarray
    )


def _random_state(value: Any) -> Any:
    """Of a random generator; None of anything else."""
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    return None
