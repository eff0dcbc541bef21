"""Files that are on disk when a call returns, hashed as they are written or read."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from hasten.records.checkpoint import StoredFile

CHUNK_BYTES = 16 << 20
"""Large, since the thread gives the interpreter away for each chunk and must get it back."""
PARTIAL = ".partial"
"""Ends the name of a file until it is whole."""


def write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> StoredFile:
    """Made anew: a file, or a link, that is there already is an error."""
    digest = hashlib.sha256()
    size = 0
    with path.open("xb", buffering=1 << 20) as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return StoredFile(name=path.name, bytes=size, sha256=digest.hexdigest())


def replace_file(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one, never a part; a failure leaves the old one."""
    temporary = path.with_name(path.name + PARTIAL)
    temporary.unlink(missing_ok=True)
    try:
        write_file(temporary, [content])
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes names durable: of files that were made, renamed or removed in the folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network filesystems keep names themselves
            raise
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> BinaryIO:
    """For reading; what is not a file, such as a pipe, is an error and not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a file", str(path))
    return os.fdopen(descriptor, "rb")


def hash_file(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    while size := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(buffer[:size])
    return digest.hexdigest()
