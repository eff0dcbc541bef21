"""Files as columns: a dict of arrays, and of ``Strings`` for texts.

Numbers with gaps become float64 with nan, where that loses no digit, times NaT; other gaps are
refused, since an array has no place for them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hasten.data.cache.readers.csv import read_csv
from hasten.data.cache.readers.hdf5 import read_hdf5
from hasten.data.cache.readers.parquet import read_parquet
from hasten.errors import HastenError

READERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".hdf": read_hdf5,
}


def reader_for(path: Path) -> Callable[[Path], dict[str, Any]]:
    """By the end of its name."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise HastenError(
            f"{path} ends with {path.suffix!r}, which is none of {', '.join(READERS)}.",
            fix="Write a function that reads it, and use cached(function).",
        )
    return reader
