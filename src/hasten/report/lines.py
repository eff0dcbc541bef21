"""Lines whose words wrap under themselves. No word is broken: paths are to be copied."""

import textwrap
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

NARROWEST = 20
"""Words get this much room, however narrow the page is."""
GAP = "  "


def hanging(head: str, words: Text, width: int) -> Text:
    """To be printed as it is. ``words`` stays on one line where it has ``no_wrap``."""
    room = max(width - len(head), NARROWEST)
    lines = [words.plain] if words.no_wrap else _wrapped(words.plain, room)
    whole = Text(head, no_wrap=True, overflow="ignore")
    return whole.append(("\n" + " " * len(head)).join(lines), style=words.style)


def _wrapped(words: str, room: int) -> list[str]:
    return textwrap.wrap(words, room, break_long_words=False, break_on_hyphens=False)


def unbroken(words: str) -> Text:
    """A path or a command: where it is too long the terminal breaks it, which copying undoes."""
    return Text(words, no_wrap=True, overflow="ignore")


class Rows:
    """Names, and beside each what there is to say."""

    def __init__(self, rows: Sequence[tuple[str, str | Text]], indent: str = GAP) -> None:
        self._rows = [(name, Text(each) if isinstance(each, str) else each) for name, each in rows]
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widest = max((len(name) for name, _ in self._rows), default=0)
        for name, words in self._rows:
            head = self._indent + (f"{name:<{widest}}{GAP}" if widest else "")
            yield hanging(head, words, options.max_width)
