"""What is being done: a live line on a terminal, plain lines elsewhere. Always to stderr."""

import time
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from hasten.report.text import printable


class Progress:
    """Use with ``with``; ``tell`` begins a new thing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("starting", console=console) if console.is_terminal else None
        self._began = time.monotonic()

    def tell(self, message: str) -> None:
        elapsed = f"{time.monotonic() - self._began:4.0f} s"
        line = Text(f"{elapsed}  {printable(message)}")  # a plain string would be read as markup
        if self._status is not None:
            self._status.update(line)
        else:
            self._console.print(line, soft_wrap=True)

    def warn(self, message: str) -> None:
        """Stays on the screen, above what is being done."""
        self._console.print(Text(f"warning: {printable(message)}"), soft_wrap=True)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._status is not None:
            self._status.stop()
