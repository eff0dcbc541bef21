"""One entry on disk, read by its manifest.

The folder is opened once and its files through it: whoever replaces the entry meanwhile puts
another folder there, so that no reader gets a file of each.
"""

import ast
import functools
import hashlib
import mmap
import os
import stat
import sys
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.data.cache.tree import put_together
from hasten.host.files import file_clock_s
from hasten.records.cache import CACHE_FORMAT, MANIFEST, ArrayFile, CacheManifest
from hasten.records.record import digest_of

LARGEST_MANIFEST = 16 << 20
USED_EVERY_S = 60
"""The time of the last use is the manifest's; it is not set at every one."""
UNFIT = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    SyntaxError,
    MemoryError,
)
"""What numpy and Python raise for descriptions of arrays that are none."""
_decode = msgspec.json.Decoder(CacheManifest).decode


class BadEntryError(Exception):
    """Not there, half, damaged, or of another format: a miss."""


class OpenEntry:
    """The folder of an entry, held open; use with ``with``."""

    def __init__(self, folder: Path) -> None:
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(folder, flags)
        except OSError as error:
            raise BadEntryError(f"it cannot be opened ({error.strerror})") from error

    def __enter__(self) -> "OpenEntry":
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def manifest(self, key: str, *, using: bool = True) -> CacheManifest:
        """``using`` counts as a use, by which entries are kept or go."""
        descriptor, size = self._open(MANIFEST)
        try:
            if size > LARGEST_MANIFEST:
                raise BadEntryError(f"its manifest has {size:,} bytes")
            manifest = _decode(os.read(descriptor, size))
            if using:
                self._note_use(descriptor)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadEntryError(f"its manifest cannot be read ({error})") from error
        finally:
            os.close(descriptor)
        _check(manifest, key)
        return manifest

    def result(self, manifest: CacheManifest) -> Any:
        """Memory-mapped: arrays read-only, tensors copy-on-write, since torch knows no others."""

        def open_array(place: int, writable: bool) -> NDArray[Any]:
            if not 0 <= place < len(manifest.arrays):
                raise BadEntryError(f"it has no array {place}")
            return self._map(manifest.arrays[place], writable)

        try:
            return put_together(manifest.result, open_array)
        except UNFIT as error:
            raise BadEntryError(f"its manifest does not fit its arrays ({error})") from error

    def check_contents(self, manifest: CacheManifest) -> None:
        """Every byte of every array, and its header."""
        for each in manifest.arrays:
            descriptor, size = self._open(each.name)
            with os.fdopen(descriptor, "rb") as file:
                if size != each.bytes:
                    _wrong_size(each, size)
                if hashlib.file_digest(file, "sha256").hexdigest() != each.sha256:
                    raise BadEntryError(f"{each.name} has not the checksum of its manifest")

    def _map(self, array: ArrayFile, writable: bool) -> NDArray[Any]:
        descriptor, size = self._open(array.name)
        try:
            if size != array.bytes:
                _wrong_size(array, size)
            access = mmap.ACCESS_COPY if writable else mmap.ACCESS_READ
            mapped = mmap.mmap(descriptor, size, access=access)
        except (OSError, ValueError) as error:
            raise BadEntryError(f"{array.name} cannot be mapped ({error})") from error
        finally:
            os.close(descriptor)
        order: Literal["C", "F"] = "F" if array.fortran_order else "C"
        return np.ndarray(
            array.shape, _dtype(array.dtype), mapped, offset=array.offset, order=order
        )

    def _open(self, name: str) -> tuple[int, int]:
        """Of a plain file in this folder, with its size."""
        if "/" in name:
            raise BadEntryError(f"{name!r:.40} lies elsewhere")
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except (OSError, ValueError) as error:
            raise BadEntryError(f"{name!r:.40} cannot be opened ({error})") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise BadEntryError(f"{name!r:.40} is not a file")
        return descriptor, status.st_size

    def _note_use(self, descriptor: int) -> None:
        now = file_clock_s()
        if abs(now - os.fstat(descriptor).st_mtime) > USED_EVERY_S:
            try:
                os.utime(descriptor)
            except OSError:
                return  # a cache that may only be read is of use too


def _check(manifest: CacheManifest, key: str) -> None:
    if manifest.format != CACHE_FORMAT or manifest.byte_order != sys.byteorder:
        raise BadEntryError(f"it is of format {manifest.format}, {manifest.byte_order}-endian")
    if manifest.seal != digest_of(msgspec.structs.replace(manifest, seal="")):
        raise BadEntryError("its manifest was changed")
    if manifest.key != key:
        raise BadEntryError(f"it is the entry of {manifest.key!r:.70}")


def _wrong_size(array: ArrayFile, size: int) -> NoReturn:
    raise BadEntryError(f"{array.name} has {size:,} bytes, not {array.bytes:,}")


@functools.lru_cache(maxsize=256)
def _dtype(text: str) -> np.dtype[Any]:
    """No objects: those would be addresses, or a pickle."""
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    if dtype.hasobject:
        raise ValueError(f"objects ({text:.80}) are not kept")
    return dtype
