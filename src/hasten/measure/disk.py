"""Whether the disk is what loading waits for.

Method: the first batches of an epoch are made, and Python tells which files are opened meanwhile;
what is open already is seen among the process's descriptors. The kernel is asked to drop these
files from its memory, the same batches are made again, and then once more. What the kernel says was
read from the disk, and how much longer that took, decides.

Limits: files that a library opens and closes by itself are not seen; a file that others keep
mapped, or that was just written, is not dropped; a file system in memory or across a network has no
disk here. Must run in a process that is thrown away: Python's audit hooks stay.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hasten.records.loading import DiskUse
from hasten.task.seed import random_state, restore_random_state

BATCHES = 8
LONGEST_S = 5.0
"""The first time, which decides how many batches."""
SLOWER = 1.3
"""Times as long from the disk; from there on it is the disk."""
STANDARD_STREAMS = 2
CODE = (".py", ".pyc", ".so", ".pyi")
TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Counters:
    asked: int
    from_disk: int
    waited_ticks: int

    @classmethod
    def now(cls) -> "Counters | None":
        """None where the system does not count."""
        try:
            lines = Path("/proc/self/io").read_text().splitlines()
            fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        found = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
        return cls(found["rchar"], found["read_bytes"], int(fields[39]))


class OpenedFiles:
    """Notes what Python opens for reading, from now on and for the life of the process."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.active = True
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.active and event == "open" and isinstance(arguments[0], str | bytes):
            self.paths.add(os.fsdecode(arguments[0]))


def measure_disk(begin: Callable[[], Iterator[Any]]) -> DiskUse:
    """``begin`` begins an epoch whose batches are made in this process."""
    opened = OpenedFiles()
    batches, _ = _load(begin, BATCHES, LONGEST_S)
    opened.active = False
    dropped = sum(map(_drop, _data_files(opened.paths)))
    before = Counters.now()
    _, cold_s = _load(begin, batches)
    between = Counters.now()
    _, warm_s = _load(begin, batches)
    after = Counters.now()
    return judge(batches, dropped, (before, between, after), cold_s, warm_s)


def judge(
    batches: int,
    files: int,
    counters: tuple[Counters | None, Counters | None, Counters | None],
    cold_s: float,
    warm_s: float,
) -> DiskUse:
    before, between, after = counters
    asked = cold = warm = waited = None
    verdict, why = "unknown", "the system does not count reads"
    if before is not None and between is not None and after is not None:
        asked, cold = between.asked - before.asked, between.from_disk - before.from_disk
        warm = after.from_disk - between.from_disk
        waited = (between.waited_ticks - before.waited_ticks) / TICKS_PER_S
        verdict, why = _verdict(files, cold, cold_s, warm_s)
    return DiskUse(
        batches=batches,
        files=files,
        asked_bytes=asked,
        cold_disk_bytes=cold,
        warm_disk_bytes=warm,
        cold_s=cold_s,
        warm_s=warm_s,
        waited_s=waited or None,  # many kernels do not count, and say 0
        verdict=verdict,  # type: ignore[arg-type]
        why=why,
    )


def _verdict(files: int, cold: int, cold_s: float, warm_s: float) -> tuple[str, str]:
    if not files and not cold:
        return "no_files", "no file was seen to be read while batches are made"
    if not cold:
        return "unknown", (
            "nothing came from a disk even after the files were dropped from the kernel's memory: "
            "they lie in memory or on another machine, or others keep them there"
        )
    times = cold_s / warm_s if warm_s else 1.0
    how = f"{times:.1f} times as long with the files from the disk as from the kernel's memory"
    if times >= SLOWER:
        return "disk", f"a batch takes {how}"
    return "not_disk", f"a batch takes only {how}"


def _load(
    begin: Callable[[], Iterator[Any]], most: int, limit_s: float = float("inf")
) -> tuple[int, float]:
    """The same batches each time: the generators are put back."""
    state, began, made = random_state(), time.perf_counter(), 0
    for _ in islice(begin(), most):
        made += 1
        if time.perf_counter() - began > limit_s:
            break
    taken_s = time.perf_counter() - began
    restore_random_state(state)
    return made, taken_s


def _data_files(opened: set[str]) -> list[Path]:
    """Regular ones that may hold data, of those that were opened or still are."""
    folder = Path("/proc/self/fd")
    held = [str(each.resolve()) for each in folder.iterdir() if int(each.name) > STANDARD_STREAMS]
    return [Path(each) for each in sorted({*opened, *held}) if _holds_data(each)]


def _holds_data(path: str) -> bool:
    if path.endswith(CODE) or path.startswith(("/proc/", "/sys/", "/dev/")):
        return False
    return Path(path).is_file()


def _drop(path: Path) -> bool:
    """Ask the kernel to forget what it keeps of a file; whether it could be asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
