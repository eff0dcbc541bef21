"""Arrays and tensors by type, shape and content."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hasten.data.cache.keys import plain

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester

CHUNK_BYTES = 64 << 20
"""What is not in one piece of memory is copied, so much at a time."""
STATE = "is in a state that changes with use, so that no result could be kept for it"


def feed_numpy(digester: "Digester", value: object, where: str) -> bool:
    if isinstance(value, np.ndarray):
        if type(value) not in (np.ndarray, np.memmap):
            digester.refuse(where, value, "may hold more than its numbers")
        _feed_array(digester, value, where)
    elif isinstance(value, np.generic):
        digester.write("scalar", value.dtype.str)
        _feed_array(digester, np.asarray(value), where)
    elif isinstance(value, np.dtype):
        digester.write("dtype", repr(np.lib.format.dtype_to_descr(value)))
    elif isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        digester.refuse(where, value, STATE)
    elif isinstance(value, np.ufunc):
        digester.write("ufunc", value.__name__, np.__version__)
    else:
        return False
    return True


def _feed_array(digester: "Digester", array: NDArray[Any], where: str) -> None:
    kind = "T" if array.dtype.kind == "T" else repr(np.lib.format.dtype_to_descr(array.dtype))
    digester.write("array", kind, repr(array.shape))
    if array.dtype.kind in "OT":
        digester.feed(array.ravel().tolist(), where)
    elif array.dtype.hasobject:
        digester.refuse(where, array, f"has objects in it ({array.dtype})")
    else:
        for piece in _pieces(array):
            digester.write("", piece)
        if array.dtype.kind == "U":
            plain.feed_files_named(digester, array.ravel().tolist(), where)


def _pieces(array: NDArray[Any]) -> Iterator[memoryview]:
    """Its bytes in C order; how many pieces there are depends on type and shape alone."""
    if not array.nbytes:
        return
    flat = array.reshape(1) if array.ndim == 0 else array
    rows = max(1, CHUNK_BYTES * len(flat) // max(flat.nbytes, 1))
    for start in range(0, len(flat), rows):
        yield memoryview(np.ascontiguousarray(flat[start : start + rows]).view(np.uint8).data)


def feed_torch(digester: "Digester", value: object, where: str) -> bool:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            digester.refuse(where, value, "may hold more than its numbers")
        if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
            digester.refuse(where, value, f"is not plain numbers ({value.layout}, {value.device})")
        content = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        digester.write("tensor", str(value.dtype), repr(tuple(value.shape)), value.device.type)
        digester.write(type(value).__name__, str(value.requires_grad))
        _feed_array(digester, content.view(torch.uint8).numpy(), where)
    elif isinstance(value, torch.Generator):
        digester.refuse(where, value, STATE)
    elif isinstance(value, torch.dtype | torch.device | torch.Size | torch.layout):
        digester.write("torch", repr(value))
    else:
        return False
    return True
