"""Figures of a step, read some steps late, so that the host never waits for the device.

After a step its figures are copied to pinned host memory behind the step's own work; an event
tells when they have arrived. ``latest`` gives the newest that have, and nothing is waited for.
"""

import math
from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from hasten.step.eager import EagerStep


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is known of one step. Figures that were not taken are None."""

    step: int
    loss: float
    gradient_norm: float | None
    """Before clipping; None where nothing is clipped."""
    scale: float | None
    """Of an fp16 loss; a step that overflowed lowers it."""
    learning_rate: float
    """That the step ran with; not a number where it is kept on the device."""


@dataclass(frozen=True, kw_only=True)
class _Pending:
    step: int
    learning_rate: float
    figures: Tensor
    clips: bool
    scales: bool
    arrived: torch.cuda.Event | None


class Readings:
    """A ring of pinned rows, each for the figures of one step."""

    def __init__(self, device: torch.device, *, every: int, slots: int) -> None:
        self.every, self.slots = every, slots
        self._on_device = device.type == "cuda"
        self._ring = torch.empty(slots, 3, pin_memory=self._on_device)
        self._pending: deque[_Pending] = deque(maxlen=slots)
        self._latest: Reading | None = None
        self._steps = self._noted = 0

    def take(self, eager: EagerStep, learning_rate: float) -> None:
        """Note the step that was just issued; the oldest row gives way where all are in use."""
        self._steps += 1
        if self._steps % self.every == 0:
            self.note(eager, learning_rate)

    def note(self, eager: EagerStep, learning_rate: float) -> None:
        """The step that was just taken, whichever it is."""
        row = self._ring[self._noted % self.slots]
        self._noted += 1
        row.copy_(_figures(eager), non_blocking=True)
        arrived = None
        if self._on_device:
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self._pending.append(
            _Pending(
                step=self._steps,
                learning_rate=learning_rate,
                figures=row,
                clips=eager.pipeline.clip_norm is not None,
                scales=eager.pipeline.scaler is not None,
                arrived=arrived,
            )
        )

    def arrived(self) -> list[Reading]:
        """Those that have come since the last time that they were asked for, oldest first."""
        found = []
        while self._pending and _has_arrived(self._pending[0]):
            self._latest = self._read(self._pending.popleft())
            found.append(self._latest)
        return found

    def latest(self) -> Reading | None:
        """The newest step whose figures have arrived; None before the first."""
        self.arrived()
        return self._latest

    def wait(self) -> Reading | None:
        """The last step that was noted; waits for the device, as at the end of an epoch."""
        self.settle()
        return self.latest()

    def settle(self) -> None:
        """Wait until all that was noted has arrived."""
        if self._pending:
            last = self._pending[-1]
            if last.arrived is not None:
                last.arrived.synchronize()

    def _read(self, pending: _Pending) -> Reading:
        loss, norm, scale = pending.figures.tolist()
        return Reading(
            step=pending.step,
            loss=loss,
            gradient_norm=norm if pending.clips else None,
            scale=scale if pending.scales else None,
            learning_rate=pending.learning_rate,
        )


def learning_rate(eager: EagerStep) -> float:
    """Of the coming step, to be asked for before it: a scheduler moves it at the step's end."""
    rate = eager.pipeline.optimizers[0].param_groups[0]["lr"]
    return math.nan if isinstance(rate, Tensor) else rate


def _figures(eager: EagerStep) -> Tensor:
    scaler = eager.pipeline.scaler
    assert eager.loss is not None  # a step has been issued
    missing = torch.full((), math.nan, device=eager.loss.device)
    norm = missing if eager.gradient_norm is None else eager.gradient_norm
    scale = missing if scaler is None or scaler._scale is None else scaler._scale
    return torch.stack([each.float().reshape(()) for each in (eager.loss, norm, scale)])


def _has_arrived(pending: _Pending) -> bool:
    return pending.arrived is None or bool(pending.arrived.query())  # type: ignore[no-untyped-call]
