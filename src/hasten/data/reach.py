"""What a dataset holds, by a walk through its attributes and containers.

Python code is not followed: globals, and what a C library keeps to itself, are not seen.
"""

import io
import sys
from collections import deque
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

MOST_OBJECTS = 100_000
"""A walk that has seen so many ends there."""
LONG = 1_000
"""Elements of a container; of more than that, some."""
WHOLE_BYTES = 65_536
"""Larger arrays are looked at here and there."""
SAMPLED = 1_024


def held_by(thing: object) -> Iterator[tuple[str, Any]]:
    """Every object that can be reached, once, with the way to it; breadth first. Of a long
    container some elements only."""
    seen, waiting = {id(thing)}, deque([("dataset", thing)])
    while waiting and len(seen) < MOST_OBJECTS:
        path, each = waiting.popleft()
        yield path, each
        for step, inner in _inside(each):
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append((path + step, inner))


def open_handles(thing: object) -> list[str]:
    """Open files, each as a way and a kind: processes that fork would share the place in them."""
    return [f"{path} ({_kind(each)})" for path, each in held_by(thing) if _is_handle(each)]


def device_tensors(thing: object) -> list[str]:
    return [
        f"{path} ({each.device})"
        for path, each in held_by(thing)
        if isinstance(each, Tensor) and each.device.type not in ("cpu", "meta")
    ]


def fingerprint(thing: object) -> int | None:
    """Changes where an attribute, a container or a small array within was changed; of large arrays
    only some numbers are looked at. None where there is too much to look at."""
    found = [(path, _mark(each)) for path, each in held_by(thing)]
    return hash(tuple(found)) if len(found) < MOST_OBJECTS else None


def _inside(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, type | ModuleType | str | bytes | int | float | Tensor | np.ndarray):
        return
    if isinstance(thing, dict):
        yield from ((f"[{key!r:.40}]", thing[key]) for key in _some(list(thing)))
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"[{at}]", value) for at, value in _some(list(enumerate(thing))))
    elif isinstance(thing, FunctionType):
        for cell in thing.__closure__ or ():
            yield "()", _content(cell)
    elif isinstance(thing, MethodType):
        yield "()", thing.__self__
    else:
        yield from _attributes(thing)


def _some(elements: list[Any]) -> list[Any]:
    return elements[:: max(1, len(elements) // LONG)]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not filled yet


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    for name, value in list(getattr(thing, "__dict__", {}).items()):
        yield f".{name}", value
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                yield f".{name}", getattr(thing, name)
    if hasattr(thing, "func") and hasattr(thing, "args"):  # functools.partial
        yield "()", (thing.func, thing.args)


def _is_handle(thing: object) -> bool:
    h5py = sys.modules.get("h5py")
    if h5py is not None and isinstance(thing, h5py.HLObject):
        return bool(thing)  # false once its file is closed
    if isinstance(thing, io.IOBase):
        return not thing.closed and _has_descriptor(thing)
    sqlite3 = sys.modules.get("sqlite3")
    return sqlite3 is not None and isinstance(thing, sqlite3.Connection)


def _has_descriptor(thing: io.IOBase) -> bool:
    try:
        thing.fileno()
    except OSError:  # in memory, as io.BytesIO
        return False
    return True


def _kind(thing: object) -> str:
    return f"{type(thing).__module__.partition('.')[0]}.{type(thing).__name__}"


def _mark(thing: Any) -> object:
    if isinstance(thing, Tensor):
        return id(thing), thing._version
    if isinstance(thing, np.ndarray):
        return id(thing), _sample(thing)
    if isinstance(thing, dict | list | tuple | set | frozenset):
        return id(thing), len(thing)
    if isinstance(thing, bool | int | float | str | bytes | complex | None):
        return thing
    return id(thing)


def _sample(array: np.ndarray[Any, Any]) -> object:
    if array.dtype.hasobject:
        return array.shape
    if array.nbytes <= WHOLE_BYTES:
        return array.tobytes()
    places = np.linspace(0, array.size - 1, SAMPLED).astype(np.int64)
    return array.flat[places].tobytes()
