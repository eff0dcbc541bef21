"""A result as arrays and the tree that holds them, and back."""

import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hasten.data.strings import Strings
from hasten.errors import HastenError
from hasten.records.cache import (
    ArrayNode,
    DictNode,
    ListNode,
    Node,
    PlainNode,
    StringsNode,
    TensorNode,
    TupleNode,
)

MOST_LEAVES = 10_000
"""Values outside arrays stand in the manifest, which every hit reads."""
FIX = (
    "Return arrays, tensors, hasten.data.Strings, plain numbers and texts, "
    "and dicts, lists or tuples of these."
)


class TakenApart:
    """``node`` is the tree of a result, ``arrays`` what it refers to."""

    def __init__(self, result: object) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._leaves = 0
        self.node = self._take(result, "the result")

    def _take(self, value: Any, where: str) -> Node:
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            if kind not in (np.ndarray, np.memmap) and not isinstance(value, np.generic):
                _refuse(where, value, "may hold more than its numbers")
            array = np.asarray(value)
            return ArrayNode(file=self._add(array, where), scalar=isinstance(value, np.generic))
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            return self._take_tensor(value, where)
        if kind is Strings:
            start, end = int(value.offsets[0]), int(value.offsets[-1])
            offsets = self._add(value.offsets - start, where)
            return StringsNode(offsets=offsets, data=self._add(value.data[start:end], where))
        if kind is list or kind is tuple:
            made = ListNode if kind is list else TupleNode
            items = [self._take(item, f"{where}[{place}]") for place, item in enumerate(value)]
            return made(items=tuple(items))
        if kind is dict:
            keys = tuple(self._plain(key, f"a key of {where}") for key in value)
            items = [self._take(item, f"{where}[{key!r:.40}]") for key, item in value.items()]
            return DictNode(keys=keys, values=tuple(items))
        return self._plain(value, where)

    def _take_tensor(self, tensor: Any, where: str) -> TensorNode:
        torch = sys.modules["torch"]
        if (
            type(tensor) is not torch.Tensor
            or tensor.layout != torch.strided
            or tensor.is_quantized
        ):
            _refuse(where, tensor, "may hold more than its numbers")
        if tensor.requires_grad or tensor.device.type != "cpu":
            _refuse(where, tensor, "requires gradients or is not on the CPU; detach().cpu() it")
        plain = tensor.resolve_conj().resolve_neg()
        try:
            array = plain.numpy()
        except TypeError:  # numpy has no such type
            widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
            array = plain.contiguous().view(widths[tensor.element_size()]).numpy()
        name = str(tensor.dtype).removeprefix("torch.")
        return TensorNode(file=self._add(array, where), dtype=name)

    def _plain(self, value: object, where: str) -> PlainNode:
        self._leaves += 1
        if self._leaves > MOST_LEAVES:
            raise HastenError(
                f"The result has more than {MOST_LEAVES:,} values outside arrays.",
                fix="Return them as an array, or texts as hasten.data.Strings.of(texts).",
            )
        form = _TO_TEXT.get(type(value))
        if form is None:
            _refuse(where, value, "cannot be kept")
        kind_name, text = form(value)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                _refuse(where, value, "is no text (it has halves of characters)")
        return PlainNode(kind=kind_name, text=text)

    def _add(self, array: NDArray[Any], where: str) -> int:
        if array.dtype.hasobject:
            _refuse(where, array, f"has objects in it ({array.dtype})")
        self.arrays.append(array)
        return len(self.arrays) - 1


def put_together(node: Node, open_array: Callable[[int, bool], NDArray[Any]]) -> Any:
    """``open_array`` gives the array of a number; writable ones stay in this process."""
    if isinstance(node, ArrayNode):
        array = open_array(node.file, False)
        return array[()] if node.scalar else array
    if isinstance(node, TensorNode):
        return _tensor(open_array(node.file, True), node.dtype)
    if isinstance(node, StringsNode):
        return Strings(open_array(node.offsets, False), open_array(node.data, False))
    if isinstance(node, ListNode):
        return [put_together(each, open_array) for each in node.items]
    if isinstance(node, TupleNode):
        return tuple(put_together(each, open_array) for each in node.items)
    if isinstance(node, DictNode):
        keys = map(_from_plain, node.keys)
        values = [put_together(each, open_array) for each in node.values]
        return dict(zip(keys, values, strict=True))
    return _from_plain(node)


def _tensor(array: NDArray[Any], dtype: str) -> Any:
    import torch

    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"{dtype!r:.40} is no type of torch's")
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == kind else tensor.view(kind)


def _from_plain(node: PlainNode) -> bool | int | float | str | None:
    if node.kind == "none":
        return None
    if node.kind == "bool":
        return node.text == "True"
    if node.kind == "int":
        return int(node.text, 16)
    return float.fromhex(node.text) if node.kind == "float" else node.text


_TO_TEXT: dict[type, Callable[[Any], tuple[Any, str]]] = {
    type(None): lambda _: ("none", ""),
    bool: lambda value: ("bool", str(value)),
    int: lambda value: ("int", format(value, "x")),
    float: lambda value: ("float", str(value) if math.isnan(value) else value.hex()),
    str: lambda value: ("str", value),
}


def _refuse(where: str, value: object, why: str) -> NoReturn:
    kind = type(value)
    raise HastenError(f"{where} is a {kind.__module__}.{kind.__qualname__}, which {why}.", fix=FIX)
