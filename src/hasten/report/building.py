"""How far a building is: one bar on a terminal, plain lines elsewhere. Always to stderr."""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from hasten.report.text import printable

LINE_EVERY_S = 1.0
"""Between two plain lines."""


class BuildingBar:
    """Use with ``with``; what it gives is called with how many parts are done, and of how many."""

    def __init__(self, what: str = "building", console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._what = printable(what)
        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        self._bar = Progress(
            *columns, MofNCompleteColumn(), TimeRemainingColumn(), console=self._console
        )
        self._task = self._bar.add_task(self._what, total=None)
        self._told_s: float | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, total=total)
            return
        now = time.monotonic()
        if self._told_s is None or done == total or now - self._told_s > LINE_EVERY_S:
            self._told_s = now
            self._console.print(Text(f"{self._what}: {done:,} of {total:,}"), soft_wrap=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()
