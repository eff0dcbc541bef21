"""What a report is made of, before it is HTML or Markdown. All text in here is plain: who writes it
escapes it; ``kind`` is for templates, which cannot ask for a class."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from markupsafe import Markup

Tone = Literal["good", "bad", "doubt", "plain"]


@dataclass(frozen=True)
class Cell:
    text: str
    code: bool = False
    """A name, a place or a value that stands in a file."""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Words:
    kind: ClassVar = "words"
    text: str


@dataclass(frozen=True)
class Commands:
    """Lines to be copied, each on its own."""

    kind: ClassVar = "commands"
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    kind: ClassVar = "grid"
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    figures: frozenset[int] = frozenset()
    """Columns of numbers, which stand to the right."""


@dataclass(frozen=True)
class Chart:
    """Markdown goes without it."""

    kind: ClassVar = "chart"
    drawing: Markup
    instead: str = ""
    """What Markdown says there, where no grid beside it has the same figures."""


Block = Words | Commands | Grid | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


def make_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str | Cell]], *, figures: Iterable[int] = ()
) -> Grid:
    made = tuple(
        tuple(each if isinstance(each, Cell) else Cell(each) for each in row) for row in rows
    )
    return Grid(headings=tuple(headings), rows=made, figures=frozenset(figures))


def code(text: str) -> Cell:
    return Cell(text, code=True)
