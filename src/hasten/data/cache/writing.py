"""One entry to disk, whole, into a folder of its own."""

import hashlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.data.cache.keys.key import versions
from hasten.data.cache.tree import TakenApart
from hasten.records.cache import CACHE_FORMAT, MANIFEST, ArrayFile, CacheManifest
from hasten.records.record import digest_of, to_json


def write_entry(folder: Path, key: str, builder: str, taken: TakenApart) -> CacheManifest:
    """Into an empty folder; on disk when it returns."""
    arrays = tuple(
        _write_array(folder / f"{place}.npy", array) for place, array in enumerate(taken.arrays)
    )
    manifest = CacheManifest(
        format=CACHE_FORMAT,
        key=key,
        builder=builder,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        byte_order=sys.byteorder,
        versions=versions(),
        bytes=sum(each.bytes for each in arrays),
        arrays=arrays,
        result=taken.node,
        seal="",
    )
    manifest = msgspec.structs.replace(manifest, seal=digest_of(manifest))
    with _HashingFile(folder / MANIFEST) as file:
        file.write(to_json(manifest))
    return manifest


def _write_array(path: Path, array: NDArray[Any]) -> ArrayFile:
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    with _HashingFile(path) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
    return ArrayFile(
        name=path.name,
        dtype=repr(np.lib.format.dtype_to_descr(array.dtype)),
        shape=array.shape,
        fortran_order=fortran,
        offset=file.size - array.nbytes,
        bytes=file.size,
        sha256=file.digest.hexdigest(),
    )


class _HashingFile:
    """A new file that knows its digest, and is on disk when it is closed."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes | memoryview) -> None:
        left = memoryview(content).cast("B")
        self.digest.update(left)
        self.size += len(left)
        while left:
            left = left[self._file.write(left) or 0 :]

    def __enter__(self) -> "_HashingFile":
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        with self._file:
            if kind is None:
                os.fsync(self._file.fileno())
