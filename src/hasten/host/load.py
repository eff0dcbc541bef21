"""What others take of this machine, between two moments.

Method: the time that the cores we may use were busy, less what our own processes ran. Clocks are
read at each reading only.

Limits: a machine beneath this one, virtual or shared by containers, is not seen; nor are other
processes on the device, whose numbers mean nothing inside of a container.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psutil

from hasten.host.cores import throttled_s
from hasten.records.load import DeviceLoad, Load

SLOWED_BY = {
    "nvmlClocksEventReasonSwThermalSlowdown": "heat",
    "nvmlClocksEventReasonHwThermalSlowdown": "heat",
    "nvmlClocksEventReasonSwPowerCap": "power",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "power",
    "nvmlClocksEventReasonHwSlowdown": "hardware",
}


class LoadMeter:
    """Begins when it is made. ``processes`` are ours, with all that they started."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._processes = [os.getpid(), *processes]
        self._cores = _cores()
        self._began = time.monotonic()
        self._busy, self._ran = self._busy_s(), self._own_s()
        self._throttled = throttled_s()
        self._device = _DeviceMeter.open()
        self._mhz: list[int] = []
        self.look()

    def look(self) -> None:
        """Read what changes from moment to moment."""
        with suppress(OSError, NotImplementedError):  # a virtual machine may have no clocks
            clock = psutil.cpu_freq()
            if clock is not None and clock.current > 0:
                self._mhz.append(round(clock.current))
        if self._device is not None:
            self._device.look()

    def read(self) -> Load:
        """What there was since the beginning."""
        self.look()
        elapsed = max(time.monotonic() - self._began, 1e-9)
        others = (self._busy_s() - self._busy) - (self._own_s() - self._ran)
        return Load(
            cores=len(self._cores),
            others_cores=max(0.0, others / elapsed),
            throttled_s=throttled_s() - self._throttled,
            lowest_mhz=min(self._mhz, default=None),
            highest_mhz=max(self._mhz, default=None),
            device=None if self._device is None else self._device.read(),
        )

    def _busy_s(self) -> float:
        every = psutil.cpu_times(percpu=True)
        chosen = [every[core] for core in self._cores if core < len(every)]
        return sum(sum(each) - each.idle - getattr(each, "iowait", 0.0) for each in chosen)

    def _own_s(self) -> float:
        total = 0.0
        for process in self._own():
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])  # of its ended children too
        return total

    def _own(self) -> list[psutil.Process]:
        """Each once: a worker is among the children of this process as well."""
        found: dict[int, psutil.Process] = {}
        for number in self._processes:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(number)
                found |= {each.pid: each for each in (process, *process.children(recursive=True))}
        return list(found.values())


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class _DeviceMeter:
    """The first NVIDIA device, where the driver's library is installed."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(0)
        self._mhz: list[int] = []
        self._slowed: set[str] = set()

    @classmethod
    def open(cls) -> "_DeviceMeter | None":
        try:
            import pynvml
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
            return cls(pynvml)
        except pynvml.NVMLError:
            return None  # no driver, or no device

    def look(self) -> None:
        nvml = self._nvml
        clock = self._ask(lambda: nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM))
        if clock is not None:
            self._mhz.append(clock)
        reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)) or 0
        self._slowed |= {
            words for name, words in SLOWED_BY.items() if reasons & getattr(nvml, name, 0)
        }

    def read(self) -> DeviceLoad:
        return DeviceLoad(
            lowest_mhz=min(self._mhz, default=0),
            highest_mhz=max(self._mhz, default=0),
            slowed_by=tuple(sorted(self._slowed)),
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Not every device answers everything."""
        with suppress(self._nvml.NVMLError):
            return question()
        return None
