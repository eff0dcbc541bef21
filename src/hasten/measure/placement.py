"""Which cores the arms of a comparison run on: the same ones for both, others in each round.

A step of small kernels is as fast as the core that launches them, and on a shared host some cores
are slower than others for seconds. Left alone, the two arms land on different ones. So in each
round the busiest threads of both arms are put on the same cores, drawn anew. One pair of cores for
all rounds would tell of these two only; one core for both threads would be another training.

Only where the device is not the CPU, whose own threads need all cores, and where cores abound.
"""

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BUSIEST = 2
"""The one that launches forward and update, and the one that launches backward."""
FEWEST_CORES = 2 * BUSIEST


class SharedCores:
    def __init__(self, arms: Sequence[Sequence[int]], order: random.Random) -> None:
        """``arms`` are the busiest threads of each, none where they are to be left alone."""
        self._arms = arms
        self._order = order
        self._allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._active = len(self._allowed) >= FEWEST_CORES and all(arms)

    def draw(self) -> None:
        """Before a round."""
        if self._active:
            cores = self._order.sample(self._allowed, BUSIEST)
            for threads in self._arms:
                for thread, core in zip(threads, cores, strict=False):
                    _place(thread, {core})

    def release(self) -> None:
        if self._active:
            for threads in self._arms:
                for thread in threads:
                    _place(thread, set(self._allowed))


def busiest_threads() -> tuple[int, ...]:
    """Of this process, by the time that they have run so far; none where the kernel is silent."""
    folder = Path("/proc/self/task")
    if not folder.is_dir():
        return ()
    ran = {int(each.name): _ran(each / "stat") for each in folder.iterdir()}
    return tuple(sorted(ran, key=lambda thread: -ran[thread])[:BUSIEST])


def _ran(stat: Path) -> int:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has ended
    return int(fields[11]) + int(fields[12])  # in user mode and in the kernel, in ticks


def _place(thread: int, cores: set[int]) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.sched_setaffinity(thread, cores)
