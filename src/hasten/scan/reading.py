"""From a path to text; what cannot matter is not decoded."""

import io
import os
import stat
import tokenize
from pathlib import Path

MATTERS = (
    b"torch", b"numpy", b"pandas", b"lightning",
    b"batch", b"collate", b"epoch", b".backward(", b"Dataset)",
    b"tokenizer",
)  # fmt: skip
"""A file in which none of these words stands has nothing to find. The later ones are of files that
train or load with what others import for them."""
MOST_BYTES = 3_000_000
"""Larger files are written by programs, and their trees would take hundreds of megabytes."""
NOTEBOOK = ".ipynb"
CONVERT = "it is a notebook: scan what `jupyter nbconvert --to script` makes of it"
"""Its text is an expression of Python too, in which nothing can be found."""


class UnreadableError(Exception):
    """Says why, in words that go after the file's name."""


def read(path: Path) -> bytes:
    if path.suffix == NOTEBOOK:
        raise UnreadableError(CONVERT)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise UnreadableError("it is no regular file")
            if about.st_size > MOST_BYTES:
                raise UnreadableError(f"it has {about.st_size:,} bytes, over {MOST_BYTES:,}")
            return file.read()
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error


def _without_waiting(path: str, flags: int) -> int:
    """For nobody to write to a pipe that has the name of a module."""
    return os.open(path, flags | os.O_NONBLOCK)


def matters(content: bytes) -> bool:
    return any(word in content for word in MATTERS)


def decode(content: bytes) -> str:
    try:
        return content.decode(encoding_of(content))
    except (SyntaxError, ValueError, LookupError) as error:
        raise UnreadableError(f"its encoding is not known: {error}") from error


def encoding_of(content: bytes) -> str:
    """As its first lines say. Raises SyntaxError where they say nothing that is known."""
    return tokenize.detect_encoding(io.BytesIO(content).readline)[0]
