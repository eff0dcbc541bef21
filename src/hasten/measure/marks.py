"""Moments of a loop, by the clock of whoever does its work.

On the CPU that is the host's clock. On CUDA an event is recorded in the stream at each mark and
read when the loop has ended, so that no mark waits for the device. Time between two events is time
of the device's own line: what the host did while the device still had work is in none of it.

Limits: a mark costs some microseconds of the host on CUDA. Work on other streams is seen as far
as the stream of the loop waits for it. On other accelerators a mark waits for the device.
"""

import time
from itertools import pairwise
from typing import Protocol

import torch


class Marks(Protocol):
    def mark(self) -> None:
        """Now."""

    def spans(self) -> list[float]:
        """Seconds from each mark to the next one; called once, after the last."""


def marks_for(device: torch.device, expected: int) -> Marks:
    return DeviceMarks(device, expected) if device.type == "cuda" else HostMarks(device)


def wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


class HostMarks:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._moments: list[float] = []

    def mark(self) -> None:
        wait_for(self._device)
        self._moments.append(time.perf_counter())

    def spans(self) -> list[float]:
        return [after - before for before, after in pairwise(self._moments)]


class DeviceMarks:
    """``expected`` events are made beforehand: making one takes longer than recording it."""

    def __init__(self, device: torch.device, expected: int) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._made = [self._make() for _ in range(expected)]
        self._recorded: list[torch.cuda.Event] = []
        self._stream.synchronize()

    def _make(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(self._stream)  # made on first use
        return event

    def mark(self) -> None:
        if self._made:
            event = self._made.pop()
            event.record(self._stream)
        else:
            event = self._make()
        self._recorded.append(event)

    def spans(self) -> list[float]:
        self._stream.synchronize()
        pairs = pairwise(self._recorded)
        return [before.elapsed_time(after) / 1000 for before, after in pairs]
