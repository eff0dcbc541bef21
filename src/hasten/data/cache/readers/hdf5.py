"""HDF5: every dataset by its path, such as ``cells/voltage``. Links are not followed."""

from pathlib import Path
from typing import Any

import numpy as np

from hasten.data.cache.readers.columns import load_package, refuse_column
from hasten.data.strings import Strings
from hasten.errors import HastenError


def read_hdf5(path: Path) -> dict[str, Any]:
    h5py = load_package("h5py", path)
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = _dataset(h5py, item, path, name)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except OSError as error:
        raise HastenError(
            f"{path} cannot be read as HDF5: {error}.", fix="Write the file anew."
        ) from error
    return found


def _dataset(h5py: Any, dataset: Any, path: Path, name: str) -> Any:
    if dataset.is_virtual or dataset.external:
        refuse_column(path, name, "lies in another file, whose changes would go unseen")
    if dataset.shape is None:
        refuse_column(path, name, "is empty, without a shape")
    text = h5py.check_string_dtype(dataset.dtype)
    if text is not None and text.length is None:
        if dataset.ndim != 1:
            refuse_column(path, name, f"has texts in {dataset.ndim} dimensions")
        return Strings.of(dataset.asstr("utf-8")[()])
    values = np.asarray(dataset[()])
    if values.dtype.hasobject:
        refuse_column(path, name, f"is of type {dataset.dtype}, which no array has")
    if values.dtype.metadata and not values.dtype.fields:
        return values.view(values.dtype.str)  # h5py's notes on texts, which no array file has
    return values
