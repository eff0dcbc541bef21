"""What a training is doing, in figures, without making it wait.

Losses are read late, where they have arrived by themselves; all times are the host's, by a clock
that does not jump. Evaluating and saving is not training: the clock of the rates stands still.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hasten.errors import HastenError
from hasten.records.measurement import Memory
from hasten.records.training import StepEvent
from hasten.runtime.memory import read_memory
from hasten.runtime.run import Run
from hasten.step.readings import Reading, Readings, learning_rate
from hasten.task import batch as batches

SLOTS = 64
"""Readings that may be on their way at once."""


@dataclass
class _Sum:
    """Of some steps in a row."""

    rows: int = 0
    wait_s: float = 0.0
    elapsed_s: float = 0.0

    def add(self, other: "_Sum") -> None:
        self.rows += other.rows
        self.wait_s += other.wait_s
        self.elapsed_s += other.elapsed_s

    def rows_per_s(self) -> float:
        return self.rows / self.elapsed_s if self.elapsed_s else 0.0

    def data_wait(self) -> float:
        return self.wait_s / self.elapsed_s if self.elapsed_s else 0.0


@dataclass(frozen=True)
class _Window:
    """What is known of the steps up to one, but for what the device has yet to tell."""

    epoch: int
    elapsed_s: float
    steps: _Sum
    memory: Memory


class Meter:
    """To be told how long a batch was ``waited`` for, and of each step ``before`` and ``after``."""

    def __init__(self, run: Run, *, every: int, first_step: int) -> None:
        self._run, self._every, self._first = run, every, first_step
        self._readings = Readings(run.pipeline.device, every=every, slots=SLOTS)
        self._windows: dict[int, _Window] = {}
        self._began = self._since = time.monotonic()
        self._window, self.total, self._later = _Sum(), _Sum(), _Sum()
        self._steps = 0
        self._rate = math.nan
        self.loss: float | None = None
        """The last that was read."""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def pace(self) -> _Sum:
        """Without the first step, where others follow: what that prepares is not done again."""
        return self._later if self._later.elapsed_s else self.total

    def waited(self, seconds: float) -> None:
        self._window.wait_s += seconds

    def before(self) -> None:
        self._rate = learning_rate(self._run.eager)

    def after(self, batch: Any, epoch: int) -> None:
        self._steps += 1
        self._window.rows += _rows(batch)
        self._readings.take(self._run.eager, self._rate)
        if self._steps == 1 and self._every > 1:
            self._readings.note(self._run.eager, self._rate)
        if self._is_told():
            self._close_window(epoch)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._add_time()
        try:
            yield
        finally:
            self._since = time.monotonic()

    def events(self) -> list[StepEvent]:
        """Those whose figures have arrived."""
        return [self._event(reading) for reading in self._readings.arrived()]

    def finish(self, epoch: int) -> list[StepEvent]:
        """Up to the last step; waits for the device."""
        if not self._is_told():
            self._readings.note(self._run.eager, self._rate)
            self._close_window(epoch)
        self._readings.settle()
        return self.events()

    def _is_told(self) -> bool:
        """The first step also, so that there is something to see."""
        return self._steps == 1 or self._steps % self._every == 0

    def _close_window(self, epoch: int) -> None:
        self._add_time()
        window, self._window = self._window, _Sum()
        self.total.add(window)
        if self._steps > 1:
            self._later.add(window)
        self._windows[self._steps] = _Window(epoch, self.elapsed_s, window, read_memory())

    def _add_time(self) -> None:
        now = time.monotonic()
        self._window.elapsed_s += now - self._since
        self._since = now

    def _event(self, reading: Reading) -> StepEvent:
        window = self._windows.pop(reading.step)
        for older in [step for step in self._windows if step < reading.step]:
            del self._windows[older]  # so many were on their way that it was lost
        self.loss = reading.loss
        return StepEvent(
            step=self._first + reading.step,
            epoch=window.epoch,
            elapsed_s=window.elapsed_s,
            loss=reading.loss,
            gradient_norm=reading.gradient_norm,
            learning_rate=reading.learning_rate,
            scale=reading.scale,
            rows_per_s=window.steps.rows_per_s(),
            data_wait=window.steps.data_wait(),
            memory=window.memory,
        )


def _rows(batch: Any) -> int:
    try:
        return batches.rows_in(batch)
    except HastenError:
        return 0  # a batch without rows that can be counted has no rate either
