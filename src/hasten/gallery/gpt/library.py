"""The text: the Python sources of the standard library, in two parts by files.

They are read from the interpreter that runs, so that nothing has to be downloaded. The same Python
gives the same text on every machine, but for what its distributor changed; another version gives
another text. No random generator is used.
"""

import sys
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hasten.errors import HastenError

SHIPPED_APART = {"distutils", "ensurepip", "idlelib", "lib2to3", "tkinter", "turtledemo"}
"""By some distributions, or gone from later versions: left out, as tests are."""
TABLES = {"encodings", "pydoc_data"}
"""Hardly text: left out too."""
END_OF_FILE = b"\0"
"""After each file; no Python source has this byte."""
EVALUATION_SHARE = 10
"""One in so many files is evaluated on."""
LEAST_BYTES = 1_000_000
"""A library with its sources has several times as much."""


@dataclass(frozen=True, kw_only=True)
class Library:
    training: bytes
    evaluation: bytes


def read_library(folder: Path | None = None) -> Library:
    """All of it, a few MB, in the order of the files' names."""
    folder = folder or Path(sysconfig.get_path("stdlib"))
    training: list[bytes] = []
    evaluation: list[bytes] = []
    for path in _sources(folder):
        name = path.relative_to(folder).as_posix()
        (evaluation if for_evaluation(name) else training).append(path.read_bytes() + END_OF_FILE)
    library = Library(training=b"".join(training), evaluation=b"".join(evaluation))
    if len(library.training) < LEAST_BYTES:
        found = len(library.training) + len(library.evaluation)
        raise HastenError(
            f"The standard library in {str(folder)!r} has {found:,} bytes of Python sources, too "
            "few to learn from: it is zipped, or its sources were stripped.",
            fix="Use a Python that has its .py files, as those of python.org, conda and most "
            "distributions have.",
        )
    return library


def for_evaluation(name: str) -> bool:
    """By the file's name alone, so that it is on the same side in every version of Python."""
    return zlib.crc32(name.encode()) % EVALUATION_SHARE == 0


def _sources(folder: Path) -> Iterator[Path]:
    """Of the modules that Python itself calls its own: not what was installed beside them."""
    for name in sorted(sys.stdlib_module_names - SHIPPED_APART - TABLES):
        module = folder / f"{name}.py"
        if module.is_file():
            yield module
        for path in sorted((folder / name).rglob("*.py")):
            if not {"test", "tests"}.intersection(path.relative_to(folder).parts):
                yield path
