"""Writes that are whole or not there: temporary file, flush to disk, rename. The clock of files."""

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path


def write_atomically(
    path: Path, content: bytes, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """Readers see the old file or the new one, never a part; a failure leaves the old one.
    ``owner`` is the user and the group it is given to, as far as we may."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if owner is not None:
            with suppress(PermissionError):
                os.chown(temporary, *owner)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def file_clock_s() -> float:
    """By the wall clock, which may jump: for the age of a file, never for how long a thing took."""
    return time.time()
