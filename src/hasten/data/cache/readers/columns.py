"""What all readers do alike: packages that may lack, columns that cannot be arrays, gaps."""

import importlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hasten.errors import HastenError

EXACT = 1 << 53
"""Up to here each integer is a float64."""


def load_package(name: str, path: Path) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        raise HastenError(
            f"{path} needs {top} to be read, which is not installed.",
            fix="pip install 'hasten[data]'",
        ) from error


def with_gaps(whole: NDArray[Any], gaps: NDArray[np.bool_], path: Path, name: str) -> NDArray[Any]:
    """As they are where there are no gaps; else with nan in them, integers as float64."""
    if not gaps.any():
        return whole
    if whole.dtype.kind in "iu" and (np.abs(whole[~gaps].astype(object)) > EXACT).any():
        refuse_column(path, name, "has gaps, and integers that a float64 would round")
    filled = whole.astype(whole.dtype if whole.dtype.kind == "f" else np.float64)
    filled[gaps] = np.nan
    return filled


def refuse_column(path: Path, name: str, why: str) -> NoReturn:
    raise HastenError(
        f"{path}: column {name!r:.80} {why}.",
        fix="Mend the file, or use cached(function) with a function of yours that reads it.",
    )
