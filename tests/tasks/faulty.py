"""Techniques that take their process down with them, each in its own way."""

import fcntl
import os
import re
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch
from torch import Tensor, nn

import hasten

HELD: list[IO[str] | Tensor] = []
STEPS_BEFORE = 4
"""Within the warm-up, after the first step has been trusted."""


def small() -> hasten.Task:
    rows = torch.randn(192, 16), torch.randint(0, 4, (192,))
    return hasten.Task(
        model=nn.Linear(16, 4),
        data=rows,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        batch_size=32,
    )


def alone() -> hasten.Task:
    """Takes all of a device that there is one of; a second process has no room."""
    file = Path(tempfile.gettempdir(), f"hasten-alone-{os.getppid()}").open("w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate all of it") from None
    HELD.append(file)
    return small()


def harmless() -> None:
    pass


def eats_memory() -> None:
    """Under a limit that leaves room for little more than what is there."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**28
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    torch.empty(2**30)


def eats_device_memory() -> None:
    """All of it, and keeps it for as long as the process lives."""
    while True:
        HELD.append(torch.empty(2**30, device="cuda"))


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def compiles_for_ever() -> None:
    time.sleep(3600)


def hangs_with_the_lock() -> None:
    """A regular expression that backtracks for years, and lets no other thread run."""
    re.match(r"(a+)+$", 64 * "a" + "b")


class FaultyPart(hasten.Part, frozen=True):
    pass


def _register(name: str, fault: Callable[[], None], *, after: int) -> None:
    class Faulty(hasten.Technique[FaultyPart]):
        part = FaultyPart
        stage = hasten.Stage.OPTIMIZER
        rung = hasten.Rung.BITWISE
        answers = ("slow-optimizer",)
        about = "Planted by a test."

        def to_try(self, environment, traits) -> list[FaultyPart]:  # type: ignore[no-untyped-def]
            return [FaultyPart()]

        def apply(self, pipeline: hasten.Pipeline, part: FaultyPart) -> hasten.Effect:
            forward, steps = pipeline.forward, [0]

            def faulty(model: nn.Module, batch: object) -> Tensor:
                steps[0] += 1
                if steps[0] > after:
                    fault()
                loss: Tensor = forward(model, batch)
                return loss

            def undo() -> None:
                pipeline.forward = forward

            pipeline.forward = faulty
            return hasten.Effect(why="planted", undo=undo)

    Faulty.name = name
    hasten.register_technique(Faulty)


_register("harmless", harmless, after=0)
_register("eats_memory_at_once", eats_memory, after=0)
_register("eats_memory_later", eats_memory, after=STEPS_BEFORE)
_register("eats_device_memory_at_once", eats_device_memory, after=0)
_register("eats_device_memory_later", eats_device_memory, after=STEPS_BEFORE)
_register("killed", killed, after=STEPS_BEFORE)
_register("compiles_for_ever", compiles_for_ever, after=0)
_register("hangs_with_the_lock", hangs_with_the_lock, after=0)
