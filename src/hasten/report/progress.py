"""What is being done: a live line on a terminal, plain lines elsewhere. Always to stderr."""

import time
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from hasten.records.progress import Doing
from hasten.report.text import duration, printable

REFRESHES_PER_S = 4
"""Enough for a clock; each costs the machine that is being measured."""
SHORTEST = 16
"""Characters of what is being done that stay on a narrow terminal."""


class Progress:
    """Use with ``with``; ``tell`` or ``show`` begins a new thing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._doing = Doing(what="starting")
        self._began = self._shown = time.monotonic()
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
        )

    def tell(self, message: str) -> None:
        self.show(Doing(what=message))

    def show(self, doing: Doing) -> None:
        self._doing, self._shown = doing, time.monotonic()
        if self._console.is_interactive:
            self._live.refresh()
        else:
            self._console.print(self._line(), soft_wrap=True)

    def note(self, message: str) -> None:
        """Stays on the screen, above what is being done."""
        self._console.print(Text(f"note: {printable(message)}"), soft_wrap=True)

    def warn(self, message: str) -> None:
        """Stays as well."""
        self._console.print(Text(f"warning: {printable(message)}"), soft_wrap=True)

    def __enter__(self) -> Self:
        if self._console.is_interactive:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def _render(self) -> Spinner:
        """One line, however narrow: what is being done gives way first."""
        room = self._console.width - 2
        whole = self._line()
        if whole.cell_len > room:
            what = len(printable(self._doing.what))
            whole = self._line(max(SHORTEST, what - (whole.cell_len - room)))
            whole.truncate(room, overflow="ellipsis")
        self._spinner.update(text=whole)
        return self._spinner

    def _line(self, room: int | None = None) -> Text:
        """As plain text, which is not read as markup; ``room`` for what is being done."""
        doing, now = self._doing, time.monotonic()
        what = Text(printable(doing.what))
        if room is not None:
            what.truncate(room, overflow="ellipsis")
        named = doing.phase is None or doing.what.startswith(doing.phase)
        phase = "" if named else f"{doing.phase}: "
        line = Text(f"{now - self._began:4.0f} s  {phase}").append_text(what)
        if doing.best:
            line.append(f"; best: {printable(doing.best)}")
        if doing.left_s is not None:
            left = doing.left_s - (now - self._shown)
            line.append(
                f"; about {duration(left)} left" if left >= 1 else "; taking longer than expected"
            )
        return line
