"""A table of parts and the share that each has in the whole, with a bar."""

from collections.abc import Callable, Mapping
from math import floor

from rich.table import Table
from rich.text import Text

BAR = 24
"""Cells of a part that is all of it."""


def share_table(parts: Mapping[str, float], show: Callable[[float], str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    whole = sum(parts.values())
    shares = percents(list(parts.values()))
    for (name, value), percent in zip(parts.items(), shares, strict=True):
        cells = round(BAR * value / whole) if whole else 0
        bar = Text("#" * cells, style="green")
        table.add_row(Text(name), Text(show(value)), Text(f"{percent:.1f} %"), bar)
    return table


def percents(values: list[float]) -> list[float]:
    """To a tenth, adding up to 100: what rounding down leaves goes to the largest rests."""
    whole = sum(values)
    if whole <= 0:
        return [0.0] * len(values)
    exact = [1000 * (value / whole) for value in values]
    tenths = [floor(each) for each in exact]
    by_rest = sorted(range(len(values)), key=lambda at: tenths[at] - exact[at])
    for at in by_rest[: 1000 - sum(tenths)]:
        tenths[at] += 1
    return [each / 10 for each in tenths]
