"""A training while it runs: one bar on a terminal, plain lines elsewhere. Always to stderr."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hasten.records.checkpoint import Position
from hasten.records.training import (
    CheckpointEvent,
    EvaluationEvent,
    NoteEvent,
    StepEvent,
    TrainingSummary,
)
from hasten.report.bar import bar_line, counter, figures
from hasten.report.lines import hanging
from hasten.report.text import clock, duration, metrics_in_words, printable

REFRESH_S = 0.2
"""Drawing takes some 0.2 ms of the training's own thread, so a thousandth of it at most."""
LINE_S = 1.0
"""Between two plain lines of steps."""

Happening = EvaluationEvent | CheckpointEvent | NoteEvent


class TrainingConsole(Console):
    """Stderr, which may go away: that is an error like another. Rich would end the process."""

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False)

    def on_broken_pipe(self) -> None:
        raise  # called where the error is being handled


class TrainingDisplay:
    """A sink. Use with ``with``, so that a terminal has its cursor back whatever happens.

    Nothing runs beside the training: the bar moves when a step has ended, by the clock.
    """

    shows_notes = True

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self.start = Position(step=0, epoch=0, batches=0)
        """Where the training began: further on where it was resumed."""
        self._live: Live | None = None
        self._total: int | None = None
        self._step = 0
        self._due = 0.0
        self._since: tuple[float, int] | None = None
        self._last: StepEvent | None = None
        self._untold: StepEvent | None = None

    def started(self, position: Position, total_steps: int | None) -> None:
        self.start = position
        self._step, self._total = position.step, total_steps
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            # What the user's code prints comes above the bar, unless it goes elsewhere.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                redirect_stdout=bool(sys.stdout and sys.stdout.isatty()),
                get_renderable=self._bar,
            )
            self._live.start(refresh=True)

    def stepped(self, step: int) -> None:
        self._step = step
        now = self._now()
        if now < self._due or self._live is None:
            return
        self._due = now + REFRESH_S
        # From the first step's end on: what it prepared is not done again.
        self._since = self._since or (now, step)
        self._live.refresh()

    def event(self, event: StepEvent | Happening) -> None:
        if isinstance(event, StepEvent):
            self._last = self._untold = event
            if self._live is None and self._now() >= self._due:
                self._tell_step()
            return
        self._print(event.elapsed_s, _happened(event))

    def ended(self, summary: TrainingSummary) -> None:
        self._step = summary.step
        self._tell_step()
        self.close()

    def close(self) -> None:
        if self._live is not None:
            with suppress(OSError, ValueError):  # a terminal that is gone has nothing to put back
                self._live.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _bar(self) -> Text:
        return bar_line(
            self._step,
            self._total,
            self._last,
            self._left_s(),
            width=self._console.width,
            plain=self._console.options.ascii_only or self._console.no_color,
        )

    def _left_s(self) -> float | None:
        """At the pace of this process so far, evaluations and checkpoints in it."""
        if self._total is None or self._since is None or self._step <= self._since[1]:
            return None
        began, first = self._since
        pace_s = (self._now() - began) / (self._step - first)
        return max(0.0, (self._total - self._step) * pace_s)

    def _tell_step(self) -> None:
        """The last one that was not told yet, where there is no bar to show it."""
        event, self._untold = self._untold, None
        if event is None or self._live is not None:
            return
        self._due = self._now() + LINE_S
        words = [f"step {counter(event.step, self._total)}", *figures(event).values()]
        self._print(event.elapsed_s, Text("  ".join(words)))

    def _print(self, elapsed_s: float, words: Text) -> None:
        """On a terminal within its width; elsewhere one line, for programs that read lines."""
        words.no_wrap = not self._console.is_terminal
        line = hanging(f"{clock(elapsed_s):>7}  ", words, self._console.width)
        self._console.print(line, soft_wrap=True, highlight=False)


def _happened(event: Happening) -> Text:
    if isinstance(event, EvaluationEvent):
        return Text(f"evaluation at step {event.step:,}: {_results(event)}", style="bold")
    if isinstance(event, NoteEvent):
        return Text(f"note at step {event.step:,}: {printable(event.words)}", style="yellow")
    where = f"checkpoint at step {event.step:,}: {printable(event.path)}"
    if event.healthy:
        return Text(f"{where}, training stood still for {duration(event.stalled_s)}")
    return Text(f"{where}, NOT HEALTHY: a weight is not finite", style="red")


def _results(event: EvaluationEvent) -> str:
    return f"{metrics_in_words(event.metrics)}, took {duration(event.took_s)}"
