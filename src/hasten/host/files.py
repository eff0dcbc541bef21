"""Writes that are whole or not there: temporary file, flush to disk, rename. The clock of files."""

import os
import tempfile
import time
from pathlib import Path


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Readers see the old file or the new one, never a part; a failure leaves the old one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def file_clock_s() -> float:
    """By the wall clock, which may jump: for the age of a file, never for how long a thing took."""
    return time.time()
