"""CSV: numbers, truth values and texts. Only an empty field is a gap: "NA" is a text."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from hasten.data.cache.readers.columns import load_package, refuse_column, with_gaps
from hasten.data.strings import Strings
from hasten.errors import HastenError


def read_csv(path: Path) -> dict[str, Any]:
    """Texts have no gaps: an empty field is the empty text. Dates stay texts."""
    pandas = load_package("pandas", path)
    wrong = pandas.errors
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", wrong.ParserWarning)  # of rows that would be cut off
            table = pandas.read_csv(
                path,
                sep="\t" if path.suffix.lower() == ".tsv" else ",",
                keep_default_na=False,
                na_values=[""],
                dtype_backend="numpy_nullable",
                low_memory=False,
                index_col=False,
                **_exactly(pandas.__version__),
            )
    except (
        wrong.ParserError,
        wrong.ParserWarning,
        wrong.EmptyDataError,
        UnicodeDecodeError,
    ) as error:
        raise HastenError(
            f"{path} cannot be read as CSV: {str(error).strip().rstrip('.')}.", fix="Mend the file."
        ) from error
    return {str(name): _column(table[name], path, str(name)) for name in table.columns}


def _exactly(version: str) -> dict[str, str]:
    """Floats to the last bit, which pandas reads unasked from 3.1 on."""
    major, minor = (int(each) for each in version.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


def _column(column: Any, path: Path, name: str) -> Any:
    gaps = column.isna().to_numpy(dtype=np.bool_)
    kind = column.dtype.kind
    if kind in "iuf":
        whole = column.to_numpy(dtype=column.dtype.numpy_dtype, na_value=0)
        return with_gaps(whole, gaps, path, name)
    if kind == "b":
        if gaps.any():
            refuse_column(path, name, "has truth values and gaps")
        return column.to_numpy(dtype=np.bool_)
    texts = column.to_numpy(dtype=object, na_value="")
    if not all(isinstance(text, str) for text in texts):
        refuse_column(path, name, "has values of several kinds")
    return Strings.of(texts)
