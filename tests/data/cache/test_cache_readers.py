"""CSV, Parquet and HDF5 as columns: each value as it stands there, or a refusal."""

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hasten.data import DatasetCache, Strings
from hasten.errors import HastenError


@pytest.fixture
def cache(tmp_path: Path) -> DatasetCache:
    return DatasetCache(tmp_path / "cache")


def test_a_csv_file_is_read_once(
    cache: DatasetCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "persons.csv"
    file.write_text('name,age,height,alive,code\nÄnne,41,1.1,True,NA\n"O, Bo",7,,False,\n')
    calls: list[Any] = []
    read = pd.read_csv
    monkeypatch.setattr(pd, "read_csv", lambda *args, **kw: calls.append(1) or read(*args, **kw))
    for _ in range(2):
        table = cache.read(file)
        assert list(table) == ["name", "age", "height", "alive", "code"]
        assert table["name"] == ["Änne", "O, Bo"]
        assert (table["age"].dtype, table["age"].tolist()) == (np.int64, [41, 7])
        np.testing.assert_array_equal(table["height"], [1.1, np.nan])
        assert (table["alive"].dtype, table["alive"].tolist()) == (np.bool_, [True, False])
        assert table["code"] == ["NA", ""]
        assert not table["age"].flags.writeable
    assert len(calls) == 1
    file.write_text("name\nx\n")
    assert cache.read(str(file))["name"] == ["x"]


def test_integers_with_gaps_are_floats_where_no_digit_is_lost(
    cache: DatasetCache, tmp_path: Path
) -> None:
    file = tmp_path / "gaps.csv"
    file.write_text(f"a,b\n{2**53},1\n,2\n")
    np.testing.assert_array_equal(cache.read(file)["a"], [2.0**53, np.nan])
    file.write_text(f"a,b\n{2**53 + 1},1\n,2\n")
    with pytest.raises(HastenError, match="column 'a' has gaps, and integers"):
        cache.read(file)
    file.write_text(f"a,b\n{2**53 + 1},1\n3,2\n")
    assert cache.read(file)["a"].tolist() == [2**53 + 1, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\nTrue,1\n,2\n", "column 'a' has truth values and gaps"),
        ("", "cannot be read as CSV"),
        ('a\n"unclosed', "cannot be read as CSV"),
        ("a,b\n1,2,3\n4,5,6\n", "cannot be read as CSV: .* loss of data"),
    ],
)
def test_a_csv_file_that_no_array_holds_is_refused(
    cache: DatasetCache, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(HastenError, match=why):
        cache.read(file)


def test_floats_are_read_to_the_last_bit(cache: DatasetCache, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    file = tmp_path / "numbers.csv"
    file.write_text("\n".join(["x", *map(repr, numbers.tolist())]) + "\n")
    assert cache.read(file)["x"].tobytes() == numbers.tobytes()


def test_a_parquet_file_is_read(cache: DatasetCache, tmp_path: Path) -> None:
    file = tmp_path / "table.parquet"
    moments = np.array(["2020-01-01T10:00", "NaT"], "datetime64[us]")
    table = pa.table(
        {
            "i": pa.array([1, 2], pa.int16()),
            "gap": pa.array([1, None], pa.int32()),
            "f": pa.array([0.5, None], pa.float32()),
            "b": pa.array([True, False]),
            "t": pa.array(["ü", ""]),
            "d": pa.array(["x", "x"]).dictionary_encode(),
            "moment": pa.array(moments),
            "day": pa.array([0, 18262], pa.date32()),
            "rows": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2)),
        }
    )
    pq.write_table(pa.concat_tables([table, table.slice(1)]), file, row_group_size=1)
    found = cache.read(file)
    assert (found["i"].dtype, found["i"].tolist()) == (np.int16, [1, 2, 2])
    np.testing.assert_array_equal(found["gap"], [1.0, np.nan, np.nan])
    assert found["f"].dtype == np.float32
    np.testing.assert_array_equal(found["f"], [0.5, np.nan, np.nan])
    assert found["b"].tolist() == [True, False, False]
    assert found["t"] == ["ü", "", ""]
    assert found["d"] == ["x", "x", "x"]
    np.testing.assert_array_equal(found["moment"], moments[[0, 1, 1]])
    assert found["day"].astype(str).tolist() == ["1970-01-01", "2020-01-01", "2020-01-01"]
    assert found["rows"].tolist() == [[1, 2], [3, 4], [3, 4]]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array(["a", None]), "has 1 gaps"),
        (pa.array([True, None]), "has 1 gaps"),
        (pa.array([2**60, None]), "integers that a float64 would round"),
        (pa.array([[1], [1, 2]]), "is of type list"),
        (pa.array([b"x", b"y"]), "is of type binary"),
    ],
)
def test_a_parquet_column_that_no_array_holds_is_refused(
    cache: DatasetCache, tmp_path: Path, column: Any, why: str
) -> None:
    file = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"col": column}), file)
    with pytest.raises(HastenError, match=f"column 'col' .*{why}"):
        cache.read(file)
    file.write_bytes(b"not parquet at all")
    with pytest.raises(HastenError, match="cannot be read as Parquet"):
        cache.read(file)


def test_an_hdf5_file_is_read(cache: DatasetCache, tmp_path: Path) -> None:
    path = tmp_path / "cells.h5"
    compound = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
    with h5py.File(path, "w") as file:
        file["cells/voltage"] = np.arange(6.0).reshape(2, 3)
        file["cells/names"] = ["ü", "b"]
        file["fixed"] = np.array([b"ab", b"c"])
        file["flag"] = np.array([True, False])
        file["scalar"] = 2.5
        file["pairs"] = compound
        file["empty"] = np.zeros((0, 2))
        file["link"] = h5py.ExternalLink("elsewhere.h5", "/x")
    found = cache.read(path)
    assert sorted(found) == [
        "cells/names", "cells/voltage", "empty", "fixed", "flag", "pairs", "scalar",
    ]  # fmt: skip
    assert found["cells/voltage"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["cells/names"] == ["ü", "b"]
    assert found["fixed"].tolist() == [b"ab", b"c"]
    assert found["flag"].tolist() == [True, False]
    assert (found["scalar"].shape, float(found["scalar"])) == ((), 2.5)
    assert found["pairs"].dtype == compound.dtype
    assert found["empty"].shape == (0, 2)


def test_an_hdf5_dataset_that_lies_elsewhere_or_holds_objects_is_refused(
    cache: DatasetCache, tmp_path: Path
) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
        file.create_virtual_dataset("x", layout)
    with pytest.raises(HastenError, match="column 'x' lies in another file"):
        cache.read(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1,), h5py.vlen_dtype(np.int32))
    with pytest.raises(HastenError, match="column 'x' is of type object"):
        cache.read(path)
    path.write_bytes(b"nothing")
    with pytest.raises(HastenError, match="cannot be read as HDF5"):
        cache.read(path)


def test_a_package_that_lacks_is_named_with_the_line_that_installs_it(
    cache: DatasetCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ending, package in ((".csv", "pandas"), (".parquet", "pyarrow"), (".h5", "h5py")):
        file = tmp_path / f"table{ending}"
        file.write_text("a\n1\n")
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(HastenError, match=f"needs {package} to be read") as error:
            cache.read(file)
        assert error.value.fix == "pip install 'hasten[data]'"


def test_a_file_of_another_kind_is_refused(cache: DatasetCache, tmp_path: Path) -> None:
    (tmp_path / "table.xlsx").write_text("")
    with pytest.raises(HastenError, match=r"ends with '.xlsx', which is none of .csv"):
        cache.read(tmp_path / "table.xlsx")


def test_texts_come_as_strings(cache: DatasetCache, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\ty\nb\tc\n")
    found = cache.read(tmp_path / "a.tsv")
    assert isinstance(found["x"], Strings)
    assert (found["x"].tolist(), found["y"].tolist()) == (["b"], ["c"])
