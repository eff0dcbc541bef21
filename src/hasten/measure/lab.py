"""Where one task is measured: makes worker processes, and ends them all when it is left."""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

import msgspec

from hasten.host.cores import memory_left
from hasten.measure import messages
from hasten.measure.compare import LOOKS_S, WARM_STEPS, Arm, Contest, compare, warm_up
from hasten.measure.nursery import Nursery
from hasten.measure.parts import measure_parts
from hasten.measure.turns import compare_in_turns
from hasten.measure.worker import REPLY_LIMIT_S, Worker, WorkerFailure
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.profile import Bound, Ceilings, ProfileParts
from hasten.stats.paired import MARGIN, Interval
from hasten.task.names import refuse_unknown

PHASE_STEPS = 60
MEMORY_SHARE = 0.25
"""Of what is left of the host's, for a file that workers hand each other."""


@dataclass(frozen=True)
class Subject:
    """What an arm runs where it is not just a plan of the lab's task."""

    task: str
    plan: Plan = NAIVE
    evaluated_rows: int | None = None
    """Its model in evaluation, by calls of so many rows, 0 for the task's batch; None trains."""
    edited: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Source files, and the files that are read in their place."""

    def __str__(self) -> str:
        return f"{self.task} with other lines" if self.edited else self.task


class Lab:
    """Use with ``with``. Nothing that it started outlives the block."""

    def __init__(self, task: str, seed: int) -> None:
        self.task = task
        self.seed = seed
        self._folder = tempfile.TemporaryDirectory(prefix="hasten-")
        self.folder = Path(self._folder.name)
        self._nursery: Nursery | None = None
        self._forks = sys.platform == "linux"
        """Elsewhere libraries that torch loads do not survive it."""
        self._open: list[Worker] = []
        self._in_memory: dict[Path, int] = {}
        """Large files that lie there, with their descriptors."""
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_workers()
        if self._nursery is not None:
            self._nursery.close()
        for descriptor in self._in_memory.values():
            os.close(descriptor)
        self._folder.cleanup()

    def large_file(self, name: str, size: int) -> Path:
        """For workers to hand each other so many bytes: in memory where that has plenty and the
        system lets us, which is gone with this process however it ends; else on disk."""
        on_disk = self.folder / name
        if not hasattr(os, "memfd_create") or size > MEMORY_SHARE * memory_left():
            return on_disk
        try:
            descriptor = os.memfd_create(name)
        except OSError:
            return on_disk
        path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        self._in_memory[path] = descriptor
        return path

    def drop_file(self, path: Path) -> None:
        """A large one that nobody needs any more."""
        if path in self._in_memory:
            os.close(self._in_memory.pop(path))
        else:
            path.unlink(missing_ok=True)

    def worker(self, *, anew: bool = False) -> Worker:
        """A fresh process: forked from one that has loaded torch, or started ``anew``. Close it
        when it is done with; else leaving the lab does."""
        self._made += 1
        log = self.folder / f"worker-{self._made}.log"
        worker = Worker(log, self._living_nursery() if self._forks and not anew else None)
        self._open.append(worker)
        return worker

    def _living_nursery(self) -> Nursery:
        """A new one where the last was killed, and all that was forked from it."""
        if self._nursery is not None and self._nursery.has_ended:
            self._nursery.close()
            self._nursery = None
        if self._nursery is None:
            self._nursery = Nursery(self.folder / "nursery.log")
        return self._nursery

    def close_workers(self) -> None:
        while self._open:
            self._open.pop().close()

    def describe(
        self, plans: Mapping[str, Plan] = MappingProxyType({}), *, task: str = ""
    ) -> messages.Described:
        """What the task is. What is wrong with it, or with plans that were read from files, which
        they are named by, is raised here, before anything else is done."""
        refuse_unknown(task or self.task)
        worker = self.worker()
        try:
            request = messages.Describe(task=task or self.task, seed=self.seed, plans=dict(plans))
            described = worker.ask(request, messages.Described)
            self._forks = self._forks and not described.sets_variables
            return described
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            worker.close()

    def lines_run(self, files: Sequence[Path]) -> dict[Path, frozenset[int]]:
        """Lines of these files that the task runs, where it is imported and built and in some
        steps; of one that is not imported there are none."""
        named = {str(each): each for each in files}
        worker = self.worker()
        try:
            request = messages.WatchLines(
                task=self.task,
                seed=self.seed,
                files=tuple(named),
                steps=WARM_STEPS,
                log=str(self.folder / "lines.log"),
            )
            ran = worker.ask(request, messages.LinesRan).lines
            return {path: frozenset(ran[name]) for name, path in named.items()}
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            worker.close()

    def profile(
        self,
        plan: Plan = NAIVE,
        tell: Callable[[str], None] = lambda message: None,
        *,
        trace: Path | None = None,
        ceilings: Ceilings | None = None,
        anew: bool = False,
    ) -> ProfileParts:
        """All that is measured of a plan, one after the other in one process, each so that it does
        not spoil the next. Phases must be there; of anything else a note says why it is not.
        ``trace`` is a file to write some steps to; ``ceilings`` are taken where they are known.
        What starting takes, and the memory of the process, is that of others only ``anew``."""
        worker = self.worker(anew=anew)
        try:
            worker.ask(self.start(plan), messages.Started)
            tell("measuring where the time of a step goes")
            request = messages.MeasurePhases(steps=PHASE_STEPS)
            measured = worker.ask(request, messages.Measured).measurement
            applied = worker.ask(messages.Warm(steps=1), messages.Warmed).applied
            lost = [str(each) for each in applied if each.outcome != "done"]
            parts = measure_parts(worker, measured, trace, tell, ceilings)
            return msgspec.structs.replace(parts, notes=(*lost, *parts.notes))
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            worker.close()

    def loading(self, seconds: float) -> messages.LoadingMeasured:
        """How fast the task's own loader is alone, and what other ways of loading give, in a
        process of its own. ``seconds`` are for the search among workers and threads."""
        worker = self.worker()
        try:
            worker.ask(self.start(NAIVE), messages.Started)
            return worker.ask(messages.MeasureLoading(seconds=seconds), messages.LoadingMeasured)
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            worker.close()

    def bounds(self, plan: Plan) -> tuple[Bound, ...]:
        """What steps take without the loader, and without the optimizer."""
        worker = self.worker()
        try:
            worker.ask(self.start(plan), messages.Started)
            worker.ask(messages.Warm(steps=1), messages.Warmed)
            return worker.ask(messages.MeasureBounds(), messages.BoundsMeasured).bounds
        finally:
            worker.close()

    def peak(self, plan: Plan, *, anew: bool = False) -> int:
        """What the tensors of a step take at their peak: of the device all that is allocated
        there, of the host the training's own."""
        worker = self.worker(anew=anew)
        try:
            worker.ask(self.start(plan), messages.Started)
            worker.ask(messages.Warm(steps=WARM_STEPS), messages.Warmed)
            memory = worker.ask(messages.ReadOutcome(), messages.OutcomeRead).memory
            if memory.device_allocated_bytes is not None:
                return memory.device_allocated_bytes
            return worker.ask(messages.MeasurePeak(), messages.PeakMeasured).memory.peak_bytes
        finally:
            worker.close()

    def arms(
        self,
        *subjects: Plan | Subject,
        limit_s: float = REPLY_LIMIT_S,
        anew: bool = True,
        digest: bool = False,
    ) -> list[Arm]:
        """Fresh processes, each with a plan started and warm within ``limit_s``. ``digest`` what
        they begin with, before step 1."""
        workers = [self.worker(anew=anew) for _ in subjects]
        try:
            starts = [self.start(each) for each in subjects]
            return warm_up(list(zip(workers, starts, strict=True)), limit_s, digest=digest)
        except WorkerFailure:
            for worker in workers:
                worker.close()
            raise

    def compare(
        self,
        a: Plan | Subject,
        b: Plan | Subject,
        *,
        seed: int,
        margin: float = MARGIN,
        limit_s: float = LOOKS_S[-1],
        earlier: Sequence[Interval] = (),
    ) -> Contest:
        """Plan B against plan A in fresh processes: side by side, or in turns where the device has
        not room for both; then neither ``limit_s`` nor ``earlier`` comparisons end it."""
        try:
            arm_a, arm_b = self.arms(a, b)
            try:
                contest = _compare_beside(arm_a, arm_b, seed, margin, limit_s, earlier)
            finally:
                arm_a.worker.close()
                arm_b.worker.close()
        except WorkerFailure as failure:
            if failure.failed.kind != "out_of_memory":
                raise
        else:
            if not any(each.ran_out_of_memory for each in contest.applied):
                return contest
        return compare_in_turns(lambda each: self.arms(each)[0], a, b, seed=seed, margin=margin)

    def start(
        self,
        subject: Plan | Subject,
        *,
        proof: Rung | None = None,
        seed: int | None = None,
        watch_masks: bool = False,
    ) -> messages.Start:
        one = subject if isinstance(subject, Subject) else Subject(self.task, subject)
        return messages.Start(
            task=one.task,
            plan=one.plan,
            seed=self.seed if seed is None else seed,
            proof=proof,
            evaluated_rows=one.evaluated_rows,
            watch_masks=watch_masks,
            edited=dict(one.edited),
        )


def _compare_beside(
    a: Arm, b: Arm, seed: int, margin: float, limit_s: float, earlier: Sequence[Interval]
) -> Contest:
    comparison = compare(a, b, seed=seed, margin=margin, limit_s=limit_s, earlier=earlier)
    a_memory, b_memory = a.read(), b.read()
    return Contest(comparison, a.applied, b.applied, a_memory, b_memory)


def latencies_of(arm: Arm) -> messages.LatenciesRead:
    return arm.worker.ask(messages.ReadLatencies(), messages.LatenciesRead)
