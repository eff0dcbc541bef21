"""Lines of code to change, as rows of a report."""

import shlex
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hasten.records.scan import CodeCost
from hasten.report.text import duration, printable, size

TITLE = "What to change in the code"
UNKNOWN = "-"
"""What it costs."""
SHOWN = 8
"""The most costly."""


def code_rows(costs: Sequence[CodeCost]) -> list[tuple[str, str, str, str]]:
    """What each costs in a step, its rule, its place, and what is wrong."""
    return [
        (
            _cost(each),
            each.finding.code,
            f"{each.finding.path}:{each.finding.line}",
            each.finding.message,
        )
        for each in costs[:SHOWN]
    ]


def more_of_it(costs: Sequence[CodeCost]) -> str:
    """Where all of them are told."""
    files = " ".join(shlex.quote(each) for each in sorted({one.finding.path for one in costs}))
    more = f"{len(costs) - SHOWN} more: " if len(costs) > SHOWN else ""
    return f"{more}hasten scan {files} tells why, and hasten explain CODE what to write instead."


def code_table(costs: Sequence[CodeCost]) -> RenderableType:
    rows = code_rows(costs)
    are_known = any(cost != UNKNOWN for cost, *_ in rows)
    table = Table.grid(padding=(0, 2))
    for _ in range(2 if are_known else 1):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for cost, code, place, message in rows:
        words = Text(printable(message)).append(printable(f"  {place}"), style="dim")
        table.add_row(*([cost] if are_known else []), code, words)
    return Group(table, Text(printable(more_of_it(costs)), style="dim"))


def _cost(each: CodeCost) -> str:
    if each.cost_s is not None:
        return duration(each.cost_s)
    return UNKNOWN if each.held_bytes is None else size(each.held_bytes)
