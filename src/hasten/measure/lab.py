"""Where one task is measured: makes worker processes, and ends them all when it is left."""

import tempfile
from pathlib import Path
from typing import Self

from hasten.measure import messages
from hasten.measure.compare import Arm, warm_up
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.measurement import Measurement, Memory
from hasten.records.plan import NAIVE, Plan, Rung

PHASE_STEPS = 60


class Lab:
    """Use with ``with``. Nothing that it started outlives the block."""

    def __init__(self, task: str, seed: int) -> None:
        self.task = task
        self.seed = seed
        self._folder = tempfile.TemporaryDirectory(prefix="hasten-")
        self.folder = Path(self._folder.name)
        self._open: list[Worker] = []
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_workers()
        self._folder.cleanup()

    def worker(self) -> Worker:
        """A fresh process. Close it when it is done with; else leaving the lab does."""
        self._made += 1
        worker = Worker(self.folder / f"worker-{self._made}.log")
        self._open.append(worker)
        return worker

    def close_workers(self) -> None:
        while self._open:
            self._open.pop().close()

    def describe(self, *plans: Plan) -> messages.Described:
        """What the task is. What is wrong with it, or with plans that were read from a file, is
        raised here, before anything else is done."""
        worker = self.worker()
        try:
            request = messages.Describe(task=self.task, seed=self.seed, plans=plans)
            return worker.ask(request, messages.Described)
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            worker.close()

    def measure(self, plan: Plan = NAIVE) -> Measurement:
        """Phases of a step under a plan, in a process of its own."""
        worker = self.worker()
        try:
            worker.ask(self.start(plan), messages.Started)
            request = messages.MeasurePhases(steps=PHASE_STEPS)
            return worker.ask(request, messages.Measured).measurement
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            worker.close()

    def arms(self, *plans: Plan) -> list[Arm]:
        """Fresh processes, each with a plan started and warm."""
        workers = [self.worker() for _ in plans]
        try:
            starts = [self.start(plan) for plan in plans]
            return warm_up(list(zip(workers, starts, strict=True)))
        except WorkerFailure:
            for worker in workers:
                worker.close()
            raise

    def start(
        self,
        plan: Plan,
        *,
        proof: Rung | None = None,
        seed: int | None = None,
        watch_masks: bool = False,
    ) -> messages.Start:
        return messages.Start(
            task=self.task,
            plan=plan,
            seed=self.seed if seed is None else seed,
            proof=proof,
            watch_masks=watch_masks,
        )


def memory_of(arm: Arm) -> Memory:
    return arm.worker.ask(messages.ReadMemory(), messages.MemoryRead).memory
