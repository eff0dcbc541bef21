"""Parquet: numbers, truth values, texts, times, and lists of numbers of one length."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.data.cache.readers.columns import load_package, refuse_column, with_gaps
from hasten.data.strings import Strings
from hasten.errors import HastenError


def read_parquet(path: Path) -> dict[str, Any]:
    """Times with a zone come as UTC."""
    arrow = load_package("pyarrow", path)
    parquet = load_package("pyarrow.parquet", path)
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise HastenError(
            f"{path} cannot be read as Parquet: {error}.", fix="Write the file anew."
        ) from error
    if len(set(table.column_names)) != len(table.column_names):
        raise HastenError(f"{path} has two columns of one name.", fix="Rename one.")
    return {name: _column(arrow, table.column(name), path, name) for name in table.column_names}


def _column(arrow: Any, chunks: Any, path: Path, name: str) -> Any:
    if arrow.types.is_dictionary(chunks.type):
        chunks = chunks.cast(chunks.type.value_type)
    kind = chunks.type
    if arrow.types.is_floating(kind) or arrow.types.is_integer(kind):
        gaps = chunks.is_null().to_numpy().astype(np.bool_)
        whole = chunks.fill_null(0).to_numpy() if chunks.null_count else chunks.to_numpy()
        return with_gaps(whole, gaps, path, name)
    if arrow.types.is_timestamp(kind) or arrow.types.is_date(kind):
        days = arrow.types.is_date(kind)
        return chunks.to_numpy().astype("datetime64[D]" if days else f"datetime64[{kind.unit}]")
    if chunks.null_count:
        refuse_column(path, name, f"({kind}) has {chunks.null_count:,} gaps")
    if arrow.types.is_boolean(kind):
        return chunks.to_numpy().astype(np.bool_)
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        return _texts(arrow, chunks)
    if arrow.types.is_fixed_size_list(kind):
        return _rows(arrow, chunks, path, name)
    return refuse_column(path, name, f"is of type {kind}, which no array has")


def _texts(arrow: Any, chunks: Any) -> Strings:
    pieces = []
    for chunk in chunks.cast(arrow.large_string()).chunks:
        _, offsets, data = chunk.buffers()
        ends = np.frombuffer(offsets, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        pieces.append(Strings(ends, content))
    return Strings.joined(pieces) if pieces else Strings.of([])


def _rows(arrow: Any, chunks: Any, path: Path, name: str) -> NDArray[Any]:
    values = arrow.chunked_array(
        [chunk.flatten() for chunk in chunks.chunks], chunks.type.value_type
    )
    if values.null_count or not arrow.types.is_primitive(values.type):
        refuse_column(path, name, f"has gaps or no numbers in its lists ({chunks.type})")
    return np.ascontiguousarray(values.to_numpy()).reshape(len(chunks), chunks.type.list_size)
