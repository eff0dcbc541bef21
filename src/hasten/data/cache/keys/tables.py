"""Frames of pandas: index, names and columns by type and content."""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester


def feed_pandas(digester: "Digester", value: Any, where: str) -> bool:
    pandas = sys.modules["pandas"]
    kind = type(value)
    if kind is pandas.DataFrame:
        digester.write("frame", str(value.shape[1]))
        digester.feed(value.attrs, f"the attrs of {where}")
        digester.feed(value.index, f"the index of {where}")
        digester.feed(value.columns, f"the columns of {where}")
        for place, name in enumerate(value.columns):
            _feed_values(digester, value.iloc[:, place], f"{where}[{name!r:.40}]")
    elif kind is pandas.Series:
        digester.write("series")
        digester.feed(value.name, f"the name of {where}")
        digester.feed(value.index, f"the index of {where}")
        _feed_values(digester, value, where)
    elif isinstance(value, pandas.Index):
        digester.write("index", kind.__name__)
        digester.feed(list(value.names), f"the name of {where}")
        digester.write("every", str(getattr(value, "freq", None)))
        levels = range(value.nlevels)
        for each in (value.get_level_values(level) for level in levels):
            _feed_values(digester, each, where)
    elif kind in (pandas.Timestamp, pandas.Timedelta, type(pandas.NA), type(pandas.NaT)):
        digester.write("moment", repr(value), str(getattr(value, "unit", "")))
    else:
        return False
    return True


def _feed_values(digester: "Digester", values: Any, where: str) -> None:
    """Of a column or an index; what numpy has no type for goes value by value."""
    pandas = sys.modules["pandas"]
    dtype = values.dtype
    digester.write("values", repr(dtype))
    if isinstance(dtype, np.dtype):
        digester.feed(values.to_numpy(), where)
    elif isinstance(dtype, pandas.CategoricalDtype):
        column = pandas.Series(values).cat
        digester.feed(column.codes.to_numpy(), where)
        digester.feed(column.categories, f"the categories of {where}")
    else:
        digester.feed(values.to_numpy(dtype=object, na_value=None).tolist(), where)
