"""A tree of plain values as JSON and a dict of tensors, and back to the bit.

A JSON object is a dict, unless its only key begins with ``$``: then it is a value of another type.
Types are matched exactly, so that nothing comes back as something else. Tensors come back
detached; one that occurs twice comes back as one object. Decoding makes values of the types named
here and nothing else: nothing is looked up by name, nothing is run.
"""

import base64
import re
import struct
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hasten.checkpoint.tensor_file import DTYPES
from hasten.errors import HastenError

DEEPEST = 100
"""Levels of a tree. What is deeper holds itself; JSON readers stop at about ten times as many."""
LARGEST_PLAIN_INT = 1 << 53
"""Beyond it some readers of JSON make a float of an int."""

_ARRAY_TYPE = re.compile(r"[<>|][biufcSUMm][0-9]+(\[[0-9]*[A-Za-z]+\])?")
_SCALAR_KINDS = "biufcMm"
_TORCH_TYPES = {
    str(each).removeprefix("torch."): each
    for each in vars(torch).values()
    if isinstance(each, torch.dtype)
}
_SEQUENCES: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_MAPPINGS: dict[type, str] = {dict: "$dict", OrderedDict: "$ordered", Counter: "$counter"}


def encode(tree: Any, where: str) -> tuple[Any, dict[str, Tensor]]:
    """The tree as values that JSON can hold, and its tensors by name, not copied.

    ``where`` begins the names of the tensors and every error: ``optimizer 0``.
    """
    encoder = _Encoder(where)
    return encoder.encode(tree, "", 0), encoder.tensors


def decode(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    try:
        return _Decoder(tensors).decode(skeleton, 0)
    except (TypeError, ValueError, KeyError, OverflowError, RuntimeError, struct.error) as error:
        raise HastenError(
            f"The stored state is broken: {error!s:.300}.", fix="Take another checkpoint."
        ) from error


class _Encoder:
    def __init__(self, where: str) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._where = where
        self._names: dict[int, str] = {}

    def encode(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if depth > DEEPEST:
            raise self._refusal(path, f"is nested more than {DEEPEST} levels deep, or in itself")
        if value is None or kind is bool:
            return value
        if kind in _ATOMS:
            return _ATOMS[kind](value)
        if kind is list:
            return self._items(value, path, depth)
        if kind in _SEQUENCES:
            return {_SEQUENCES[kind]: self._items(value, path, depth)}
        if kind is deque:
            return {"$deque": [value.maxlen, self._items(value, path, depth)]}
        if kind in _MAPPINGS:
            return self._mapping(value, path, depth)
        if kind is Tensor:
            return {"$tensor": self._name(value, path)}
        return self._numpy(value, path)

    def _items(self, values: Iterable[Any], path: str, depth: int) -> list[Any]:
        return [
            self.encode(each, f"{path}[{index}]", depth + 1) for index, each in enumerate(values)
        ]

    def _mapping(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        if type(value) is dict and all(map(_is_plain_key, value)):
            return {
                key: self.encode(item, _inside(path, key), depth + 1) for key, item in value.items()
            }
        pairs = [
            [
                self.encode(key, f"{path} (a key)".strip(), depth + 1),
                self.encode(item, _inside(path, key), depth + 1),
            ]
            for key, item in value.items()
        ]
        return {_MAPPINGS[type(value)]: pairs}

    def _name(self, tensor: Tensor, path: str) -> str:
        if id(tensor) in self._names:
            return self._names[id(tensor)]
        if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
            raise self._refusal(path, f"is a tensor of layout {_layout(tensor)}")
        if tensor.dtype not in DTYPES:
            raise self._refusal(path, f"is a tensor of {tensor.dtype}")
        name = self._names[id(tensor)] = self._keep(tensor.detach(), path)
        return name

    def _keep(self, tensor: Tensor, path: str) -> str:
        name = f"{self._where}: {path}" if path else self._where
        while name in self.tensors:  # two keys may be shown alike
            name += "'"
        self.tensors[name] = tensor
        return name

    def _numpy(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind is np.str_:
            return {"$numpy_str": _encode_str(str.__str__(value))}  # its own drops nulls
        if kind is np.bytes_:
            return {"$numpy_bytes": value.hex()}
        if isinstance(value, np.generic) and value.dtype.kind in _SCALAR_KINDS:
            return {"$numpy": [value.dtype.str, value.tobytes().hex()]}
        if kind is np.ndarray and _ARRAY_TYPE.fullmatch(value.dtype.str):
            content = torch.from_numpy(np.frombuffer(bytearray(value.tobytes()), np.uint8))
            name = self._keep(content, path)
            return {"$array": [value.dtype.str, list(value.shape), name]}
        if kind is np.ndarray:
            raise self._refusal(path, f"is an array of {value.dtype.str!a}")
        raise self._refusal(path, f"is a {kind.__module__}.{kind.__qualname__}")

    def _refusal(self, path: str, problem: str) -> HastenError:
        at = f"{self._where}: {path}" if path else self._where
        return HastenError(
            f"{at} {problem}, which a checkpoint cannot hold.",
            fix="Keep numbers, strings, dense tensors, or lists and dicts of them there; let an"
            " object's state_dict() return such.",
        )


class _Decoder:
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    def decode(self, node: Any, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if node is None or type(node) in (bool, int, float, str):
            return node
        if type(node) is list:
            return self._items(node, depth)
        if type(node) is not dict:
            raise TypeError(f"a {type(node).__name__} stands in it")
        if not all(type(key) is str for key in node):
            raise TypeError("a key in it is not a string")
        if not any(key.startswith("$") for key in node):
            return {key: self.decode(item, depth + 1) for key, item in node.items()}
        return self._tagged(node, depth)

    def _tagged(self, node: dict[str, Any], depth: int) -> Any:
        (tag, content), *more = node.items()
        if more:
            raise ValueError(f"more stands beside {tag!a}")
        if tag in _VALUES:
            return _VALUES[tag](content)
        if tag in _OF_ITEMS:
            return _OF_ITEMS[tag](self._items(content, depth))
        if tag in _OF_PAIRS:
            return self._filled(_OF_PAIRS[tag](), content, depth)
        if tag == "$deque":
            longest, items = _list(content)
            return deque(self._items(items, depth), longest)
        if tag == "$tensor":
            return self._tensors[content]
        if tag == "$array":
            dtype, shape, name = _list(content)
            return _decode_array(dtype, shape, self._tensors[name])
        raise ValueError(f"{tag!a} is not known")

    def _items(self, nodes: Any, depth: int) -> list[Any]:
        return [self.decode(each, depth + 1) for each in _list(nodes)]

    def _filled(self, mapping: dict[Any, Any], pairs: Any, depth: int) -> dict[Any, Any]:
        for pair in _list(pairs):
            key, value = self._items(pair, depth)
            if key in mapping:
                raise ValueError("a key occurs twice")
            mapping[key] = value
        return mapping


def _encode_int(value: int) -> Any:
    return value if abs(value) <= LARGEST_PLAIN_INT else {"$int": hex(value)}


def _encode_float(value: float) -> Any:
    is_finite = value - value == 0
    return value if is_finite else {"$float": struct.pack(">d", value).hex()}


def _encode_str(value: str) -> Any:
    if _is_unicode(value):
        return value
    return {"$str": value.encode("utf-8", "surrogatepass").hex()}


_ATOMS: dict[type, Callable[[Any], Any]] = {
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    torch.Size: lambda value: {"$size": list(value)},
    torch.dtype: lambda value: {"$dtype": str(value).removeprefix("torch.")},
    torch.device: lambda value: {"$device": str(value)},
}


def _decode_float(content: Any) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(content))
    return float(value)


def _decode_str(content: Any) -> str:
    return bytes.fromhex(content).decode("utf-8", "surrogatepass")


def _decode_device(content: Any) -> torch.device:
    if type(content) is not str:  # torch takes a number for an accelerator
        raise TypeError("a device is not a string")
    return torch.device(content)


def _decode_scalar(content: Any) -> Any:
    dtype, raw = _list(content)
    return _array(_array_type(dtype), (), bytes.fromhex(raw))[()]


def _decode_numpy_str(content: Any) -> np.str_:
    return np.str_(content if type(content) is str else _decode_str(content["$str"]))


def _decode_array(dtype: Any, shape: Any, content: Tensor) -> np.ndarray[Any, Any]:
    if content.dtype != torch.uint8 or content.dim() != 1:
        raise ValueError("the bytes of an array are not bytes")
    return _array(_array_type(dtype), tuple(_list(shape)), content.cpu().numpy().tobytes())


def _array_type(name: Any) -> np.dtype[Any]:
    if type(name) is not str or not _ARRAY_TYPE.fullmatch(name):
        raise ValueError(f"{name!a:.80} is no type of numbers")
    return np.dtype(name)


def _array(dtype: np.dtype[Any], shape: tuple[int, ...], content: bytes) -> np.ndarray[Any, Any]:
    if any(each < 0 for each in shape):  # numpy takes it for "as many as there are"
        raise ValueError(f"{min(shape)} is no size")
    array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, buffer=bytearray(content))
    if array.nbytes != len(content):
        raise ValueError(f"an array of {array.nbytes} bytes has {len(content)}")
    return array.copy()  # one that owns its memory


_VALUES: dict[str, Callable[[Any], Any]] = {
    "$int": lambda content: int(content, 16),
    "$float": _decode_float,
    "$str": _decode_str,
    "$bytes": lambda content: base64.b64decode(content, validate=True),
    "$size": lambda content: torch.Size(_list(content)),
    "$dtype": lambda content: _TORCH_TYPES[content],
    "$device": _decode_device,
    "$numpy": _decode_scalar,
    "$numpy_str": _decode_numpy_str,
    "$numpy_bytes": lambda content: np.bytes_(bytes.fromhex(content)),
}
_OF_ITEMS: dict[str, Callable[[list[Any]], Any]] = {tag: kind for kind, tag in _SEQUENCES.items()}
_OF_PAIRS: dict[str, Callable[[], dict[Any, Any]]] = {tag: kind for kind, tag in _MAPPINGS.items()}


def _list(node: Any) -> list[Any]:
    if type(node) is not list:
        raise TypeError(f"a {type(node).__name__} stands in the place of a list")
    return node


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and not key.startswith("$") and _is_unicode(key)


def _is_unicode(text: str) -> bool:
    """Half of a surrogate pair is a character to Python, not to JSON."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


def _inside(path: str, key: Any) -> str:
    if not path and type(key) is str and key.isascii() and key.isidentifier():
        return key
    return f"{path}[{_shown(key)}]"


def _shown(key: Any) -> str:
    """Short, and no character that a terminal obeys."""
    if type(key) in (str, bytes, float, bool) or key is None:
        return ascii(key)[:80]
    if type(key) is int and abs(key) <= LARGEST_PLAIN_INT:
        return str(key)
    return type(key).__name__


def _layout(tensor: Tensor) -> str:
    if tensor.is_nested:
        return "nested"
    return "meta" if tensor.is_meta else str(tensor.layout).removeprefix("torch.")
