"""The process of one arm: ``python -m arms.child SETTING PARENT``, JSON lines in and out."""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

import torch

from arms import workload
from arms.expert import Expert
from arms.naive import Naive
from arms.ours import Ours
from arms.wrappers import Accelerate, Fabric
from hasten.measure.rest import wait_for_children_to_rest
from hasten.task.seed import seed_everything

ARMS: dict[str, Callable[[workload.Setting], workload.Arm]] = {
    "naive": Naive,
    "fabric": Fabric,
    "accelerate": Accelerate,
    "expert": Expert,
    "expert_graph": partial(Expert, graph=True),
    "ours": Ours,
}
WARM_STEPS = 10
"""Compilation, the choice of kernels and the capture of graphs are done after these."""
PR_SET_PDEATHSIG = 1
MINIMUM_STEPS = 2
"""Of a block."""


class Child:
    def __init__(self, setting: workload.Setting) -> None:
        self._setting = setting
        self._arm: workload.Arm
        self._first_losses: list[float] = []

    def prepare(self) -> dict[str, Any]:
        start = time.perf_counter()
        self._arm = ARMS[self._setting.arm](self._setting)
        built = time.perf_counter()
        # From here on every arm that shuffles by a loader draws the same order.
        seed_everything(self._setting.seed + 1)
        self._first_losses = self._losses(WARM_STEPS)
        warm = time.perf_counter()
        wait_for_children_to_rest()
        if workload.on_cuda():
            torch.cuda.empty_cache()  # six arms share the device; one keeps only what it uses
        return {
            "batch_size": self._arm.rows,
            "build_s": round(built - start, 2),
            "warm_up_s": round(warm - built, 2),
        }

    def train(self, steps: int) -> dict[str, Any]:
        """The losses of the very first steps, those of the warm-up among them."""
        start = time.perf_counter()
        losses = self._first_losses + self._losses(steps - WARM_STEPS)
        return {"losses": losses[:steps], "losses_s": round(time.perf_counter() - start, 2)}

    def _losses(self, steps: int) -> list[float]:
        # Cloned, as a replayed graph writes its next loss to the same place.
        kept = [self._arm.step().clone() for _ in range(steps)]
        return [round(float(loss), 7) for loss in kept]

    def calibrate(self, block_s: float) -> dict[str, Any]:
        """How many steps a block takes, found alone on the machine."""
        self._drain()
        steps = 3
        for _ in range(3):
            wanted = steps * block_s / self._seconds(steps)
            steps = max(MINIMUM_STEPS, min(round(wanted), 20 * steps))
        return {"steps": steps}

    def block(self, steps: int) -> dict[str, Any]:
        self._drain()
        return {"elapsed_s": self._seconds(steps)}

    def finish(self) -> dict[str, Any]:
        """Peaks are of the whole life: a graph's memory is seen only while it is captured."""
        cuda = workload.on_cuda()
        return {
            "peak_allocated_bytes": torch.cuda.max_memory_allocated() if cuda else None,
            "peak_reserved_bytes": torch.cuda.max_memory_reserved() if cuda else None,
            "notes": self._arm.notes(),
        }

    def _drain(self) -> None:
        for _ in range(self._arm.prefetched + 1):
            self._arm.step()

    def _seconds(self, steps: int) -> float:
        """Of whole steps, until the device has done them."""
        _synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            self._arm.step()
        _synchronize()
        return time.perf_counter() - start


def _synchronize() -> None:
    if workload.on_cuda():
        torch.cuda.synchronize()


def serve(child: Child, replies: TextIO) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(child, request.pop("do"))(**request)
        except workload.NotInstalledError as error:
            reply = {"outcome": "not installed", "why": str(error)}
        except workload.NotPossibleError as error:
            reply = {"outcome": "not possible", "why": str(error)}
        except Exception as error:  # noqa: BLE001  # one arm's failure is a row of the results
            reply = {"outcome": "failed", "why": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(reply), file=replies, flush=True)


def _die_with(parent: int) -> None:
    """Stopped, we would outlive a parent that was killed, and our loader workers us."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.register_at_fork(after_in_child=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    if os.getppid() != parent:
        raise SystemExit(0)


if __name__ == "__main__":
    _die_with(int(sys.argv[2]))
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an arm prints is not an answer
    serve(Child(workload.Setting(**json.loads(sys.argv[1]))), replies)
