"""Which cores the arms of a comparison run on: the same ones for both, others in each round.

On a shared host some cores are slower than others for seconds, and a process that was left alone
keeps to those that it began on: two identical arms then differ for as long as they live. So in each
round the busiest threads of both arms are put on the same cores, one on each, drawn anew. The same
cores in all rounds would tell of those only; one core for all threads would be another training.

Where a loader has workers nothing is placed: those that an epoch starts would inherit the one core
of the thread that starts them.
"""

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

LAUNCHING = 2
"""Threads that keep another device busy: one launches forward and update, one backward."""


class SharedCores:
    def __init__(self, arms: Sequence[Sequence[int]], order: random.Random) -> None:
        """``arms`` are the busiest threads of each, none where they are to be left alone."""
        self._order = order
        self._allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        count = min(map(len, arms))
        self._count = count if count <= len(self._allowed) else 0
        self._arms = [threads[: self._count] for threads in arms]

    def draw(self) -> None:
        """Before a round."""
        cores = self._order.sample(self._allowed, self._count)
        for threads in self._arms:
            for thread, core in zip(threads, cores, strict=True):
                _place(thread, {core})

    def release(self) -> None:
        for threads in self._arms:
            for thread in threads:
                _place(thread, set(self._allowed))


def threads_to_place(device: "torch.device", *, beside_workers: bool) -> tuple[int, ...]:
    """Of this process, the busiest first."""
    import torch  # here, in a worker; the tuner, which draws the cores, does without

    if beside_workers:
        return ()
    return busiest_threads(torch.get_num_threads() if device.type == "cpu" else LAUNCHING)


def busiest_threads(most: int) -> tuple[int, ...]:
    """By the time that they have run so far; none where the kernel is silent."""
    folder = Path("/proc/self/task")
    if not folder.is_dir():
        return ()
    ran = {int(each.name): _ran(each / "stat") for each in folder.iterdir()}
    return tuple(sorted(ran, key=lambda thread: -ran[thread])[:most])


def _ran(stat: Path) -> int:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has ended
    return int(fields[11]) + int(fields[12])  # in user mode and in the kernel, in ticks


def _place(thread: int, cores: set[int]) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.sched_setaffinity(thread, cores)
