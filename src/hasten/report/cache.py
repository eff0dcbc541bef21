"""A cache in words: its entries, what was verified, what was removed."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hasten.records.cache import (
    CacheComplaint,
    CacheEntry,
    CacheListing,
    CacheRemoval,
    CacheVerification,
)
from hasten.report.lines import Rows, unbroken
from hasten.report.text import printable, size

SHORT = 12
"""Characters of a key that tell it apart from others."""


def listing_card(listing: CacheListing) -> RenderableType:
    of = f"{size(listing.bytes)} of at most {size(listing.limit_bytes)}"
    where = f"in {printable(listing.folder)}"
    if not listing.entries:
        head = _head("The cache is empty").append(f" ({where}).", style="not bold")
        return Group(head, *_complaints(listing.complaints))
    head = _head(_count(len(listing.entries)))
    head.append(f", {of}, {where}", style="not bold")
    return Group(head, Text(), _table(listing.entries), *_complaints(listing.complaints))


def verification_card(verified: CacheVerification) -> RenderableType:
    where = f"in {printable(verified.folder)}"
    word = "BAD" if verified.removed else "GOOD"
    head = _head(word, style="bold red" if verified.removed else "bold green")
    head.append(
        f"  {_count(verified.good)} whole, {size(verified.bytes)}, {where}",
        style="not bold default",
    )
    removed = _section("Bad ones, removed; they are built anew when asked for", verified.removed)
    return Group(head, *removed, *_complaints(verified.complaints))


def removal_card(removal: CacheRemoval) -> RenderableType:
    head = _head(f"Removed {_count(len(removal.removed))}")
    head.append(f", {size(removal.freed_bytes)}, in {printable(removal.folder)}", style="not bold")
    head.append(f"; left: {_count(removal.kept)}, {size(removal.kept_bytes)}", style="not bold")
    table: list[RenderableType] = [Text(), _table(removal.removed)] if removal.removed else []
    return Group(head, *table, *_complaints(removal.complaints))


def _head(words: str, style: str = "bold") -> Text:
    """On one line: there is a path in it."""
    return Text(words, style=style, no_wrap=True, overflow="ignore")


def _count(entries: int) -> str:
    return f"{entries:,} {'entry' if entries == 1 else 'entries'}"


def _table(entries: Sequence[CacheEntry]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("key", "built by"):
        table.add_column(title, overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for title in ("created", "last used"):
        table.add_column(title, no_wrap=True)
    for each in entries:
        table.add_row(
            Text(each.key[:SHORT]),
            Text(printable(each.builder) or "cannot be read"),
            size(each.bytes),
            Text(_minute(each.created)),
            Text(_minute(each.last_used)),
        )
    return table


def _minute(moment: str) -> str:
    return printable(moment)[:16].replace("T", " ")


def _complaints(complaints: Sequence[CacheComplaint]) -> list[RenderableType]:
    return _section("Also in the folder", complaints)


def _section(title: str, complaints: Sequence[CacheComplaint]) -> list[RenderableType]:
    if not complaints:
        return []
    rows: list[RenderableType] = []
    for each in complaints:
        rows += [unbroken(f"  {printable(each.path)}")]
        rows += [Rows([("", printable(each.why))], indent="    ")]
    return [Text(f"\n{title}", style="bold"), *rows]
