"""Safetensors files: written by hand, read by the library.

The library's ``save_file`` copies every tensor and keeps the interpreter to itself while it writes,
so that a training beside it would stand still. Here the bytes of the tensors go to the file and to
the hash as they lie in memory, and the interpreter is free meanwhile.
"""

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hasten.checkpoint.files import CHUNK_BYTES, write_file
from hasten.errors import HastenError
from hasten.records.checkpoint import StoredFile

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.float4_e2m1fn_x2: "F4",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""What the format can hold."""
HEADER_ALIGNMENT = 8
RESERVED = "__metadata__"


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> StoredFile:
    """Tensors of the host; what does not lie in order is put in order one by one."""
    header = make_header(tensors)
    stored = write_file(path, _content(header, tensors))
    _refuse_unreadable(path)
    return stored


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Copies: the library hands out views of the file, which whoever truncates it takes away."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise HastenError(f"{path} is not a safetensors file: {error}.") from error
    except RuntimeError as error:  # torch maps by name what the library has opened before
        if path.exists():
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error


def make_header(tensors: Mapping[str, Tensor]) -> bytes:
    """Length and JSON, filled up with spaces, so that the data begins aligned."""
    if sys.byteorder != "little":
        raise HastenError("Checkpoints are written on little-endian machines only.")
    entries: dict[str, Any] = {}
    offset = 0
    for name in _in_file_order(tensors):
        _refuse_unstorable(name, tensors[name])
        end = offset + tensors[name].nbytes
        entries[name] = {
            "dtype": DTYPES[tensors[name].dtype],
            "shape": _stored_shape(tensors[name]),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % HEADER_ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _content(header: bytes, tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    yield header
    for name in _in_file_order(tensors):
        content = _bytes_of(tensors[name])
        for start in range(0, len(content), CHUNK_BYTES):
            yield content[start : start + CHUNK_BYTES]


def _in_file_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """Wide types first, so that every tensor begins at a multiple of its element's size."""
    return sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))


def _bytes_of(tensor: Tensor) -> memoryview:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().data


def _stored_shape(tensor: Tensor) -> list[int]:
    if tensor.dtype != torch.float4_e2m1fn_x2:
        return list(tensor.shape)
    return [*tensor.shape[:-1], 2 * tensor.shape[-1]]  # torch counts pairs, the format numbers


def _refuse_unstorable(name: str, tensor: Tensor) -> None:
    if tensor.dtype not in DTYPES or tensor.layout != torch.strided:
        raise HastenError(
            f"The tensor {name!a} is {tensor.dtype} of layout {tensor.layout}, which a safetensors"
            " file cannot hold.",
            fix="Convert it, or leave it out of the state.",
        )
    if name == RESERVED or _has_surrogates(name):
        raise HastenError(
            f"A tensor cannot be named {name!a} in a safetensors file.", fix="Give it another name."
        )


def _has_surrogates(name: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in name)


def _refuse_unreadable(path: Path) -> None:
    """Its header only. An older safetensors knows fewer types than this file may hold."""
    try:
        with safe_open(path, framework="pt"):
            pass
    except SafetensorError as error:
        raise HastenError(
            f"{path} could not be read back: {error}.", fix="Install a newer safetensors."
        ) from error
