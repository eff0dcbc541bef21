"""Those who are told what a training does. None of them can stop or change it."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from hasten.records.checkpoint import Position
from hasten.records.training import (
    CheckpointEvent,
    EvaluationEvent,
    NoteEvent,
    StepEvent,
    TrainingSummary,
)
from hasten.report.text import printable

Event = StepEvent | EvaluationEvent | CheckpointEvent | NoteEvent


class Sink(Protocol):
    """One that shows notes to a person has ``shows_notes = True``."""

    def started(self, position: Position, total_steps: int | None) -> None:
        """Before the first step. The total counts from step 0; None where nobody knows it."""

    def stepped(self, step: int) -> None:
        """After every step: it stands between two of them, so it must cost next to nothing."""

    def event(self, event: Event) -> None: ...

    def ended(self, summary: TrainingSummary) -> None:
        """Not called where training ends by an error."""


class Sinks:
    """All of them as one. A sink that raises is dropped: the others are told, so is whoever reads
    stderr, once, and training goes on."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self._sinks = tuple(sinks)
        self._began = time.monotonic()
        self._step = 0
        self.dropped: list[str] = []
        """In words, for the summary's notes."""

    def started(self, position: Position, total_steps: int | None) -> None:
        self._began = time.monotonic()
        self._step = position.step
        self._tell(lambda sink: sink.started(position, total_steps))

    def stepped(self, step: int) -> None:
        self._step = step
        for sink in self._sinks:
            try:
                sink.stepped(step)
            except (Exception, SystemExit) as error:  # noqa: BLE001  # never the end of a training
                self._drop(sink, error)

    def event(self, event: Event) -> None:
        self._tell(lambda sink: sink.event(event))

    def ended(self, summary: TrainingSummary) -> None:
        self._tell(lambda sink: sink.ended(summary))

    def close(self) -> None:
        """However the training ended: a sink that has a ``close`` lets go of what it holds."""
        self._tell(lambda sink: getattr(sink, "close", lambda: None)())

    def _tell(self, what: Callable[[Sink], None]) -> None:
        for sink in self._sinks:
            if not self._has(sink):
                continue  # dropped meanwhile: it failed at the note about another
            try:
                what(sink)
            except (Exception, SystemExit) as error:  # noqa: BLE001  # never the end of a training
                self._drop(sink, error)

    def _drop(self, sink: Sink, error: BaseException) -> None:
        self._sinks = tuple(each for each in self._sinks if each is not sink)
        words = (
            f"{type(sink).__name__} failed and is told nothing more; training goes on"
            f" ({type(error).__name__}: {error})"
        )
        self.dropped.append(words)
        elapsed_s = time.monotonic() - self._began
        if not any(getattr(each, "shows_notes", False) for each in self._sinks):
            _say(words)
        self.event(NoteEvent(step=self._step, elapsed_s=elapsed_s, words=words))

    def _has(self, sink: Sink) -> bool:
        return any(each is sink for each in self._sinks)


def _say(words: str) -> None:
    try:
        sys.stderr.write(f"warning: {printable(words)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # stderr is full, closed or None: there is nobody to tell
