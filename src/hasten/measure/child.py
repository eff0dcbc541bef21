"""What runs in a worker process: builds a task, applies a plan, and answers requests.

One of the few places with a broad except: whatever the user's code or a technique raises here
becomes a reply, and the tuner goes on.
"""

import ctypes
import math
import os
import signal
import statistics
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader

from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.measure import digests, messages, numerics
from hasten.measure.phases import measure_phases
from hasten.measure.randomness import MaskWatch, repeat
from hasten.measure.rest import wait_for_children_to_rest
from hasten.measure.resuming import train_for
from hasten.measure.seeded import train_seed
from hasten.records.finding import Place
from hasten.records.plan import Rung
from hasten.runtime.memory import read_memory
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.load import Factory, build_task, load_factory, place_of, user_error
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from hasten.task.traits import read_traits
from hasten.techniques import registry

PR_SET_PDEATHSIG = 1
MOST_PREPARING = 32
"""Steps that a plan may take to prepare, such as those before a capture."""
USUAL_PREFETCH = 2
"""What a DataLoader with workers prefetches per worker where nothing is set."""


class Child:
    """The state of one worker: the task by its name and, once started, a run of it."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}
        self._run: Run | None = None
        self._masks: MaskWatch | None = None
        self._batches: Iterator[Any] = iter(())

    def answer(self, request: messages.AnyRequest) -> messages.Reply:
        match request:
            case messages.Describe():
                return self._describe(request)
            case messages.Start():
                return self._start(request)
            case messages.Warm():
                return self._warm(request.steps)
            case messages.TimeBlock():
                return self._time_block(request.steps)
            case messages.MeasurePhases():
                return messages.Measured(
                    measurement=measure_phases(self.run, self._batches, request.steps)
                )
            case messages.ReadMemory():
                return messages.MemoryRead(memory=read_memory())
            case messages.DigestData():
                return digests.digest_data(self.run, request.epochs, request.limit_s)
            case messages.Trace():
                return numerics.trace(self.run, request)
            case messages.Repeat():
                return self._repeat(request)
            case messages.TrainSeed():
                return train_seed(self._build(request.task, request.seed), request)
            case messages.TrainFor():
                return train_for(request)

    @property
    def run(self) -> Run:
        if self._run is None:
            raise AssertionError("Start comes before this request")
        return self._run

    def _build(self, name: str, seed: int) -> Task:
        if name not in self._factories:
            seed_everything(seed)  # a script may make its data where it is imported
            self._factories[name] = load_factory(name)
        return build_task(self._factories[name], name, seed)

    def _describe(self, request: messages.Describe) -> messages.Described:
        task = self._build(request.task, request.seed)
        for plan in request.plans:
            registry.decode(plan)
        try:
            pipeline = Pipeline.from_task(task)
            batch = next(iter(pipeline.loader))
            batches.rows_in(batch)
            loss = float(Run(pipeline).step(batch))
            traits = read_traits(pipeline, batch)
        except StopIteration:
            raise HastenError(
                f"{request.task}: the training data gives no batch.", fix="Give it some rows."
            ) from None
        except Exception as error:
            raise user_error(f"{request.task} does not run one step", error) from error
        if not math.isfinite(loss):
            raise HastenError(
                f"{request.task}: the loss of the first batch is {loss}.",
                fix="A training that begins so cannot be compared with anything; mend it first.",
            )
        environment = read_environment()
        return messages.Described(
            environment=environment,
            traits=traits,
            offers=registry.offers(environment, traits),
            levels={
                level.value: PerformanceConfig(optimization_level=level).resolve(
                    environment, traits
                )
                for level in OptimizationLevel
            },
            rungs={each.name: each.rung for each in registry.all_techniques()},
            schema=msgspec.json.encode(registry.recipe_schema()),
            task_place=place_of(self._factories[request.task]),
            model_place=_model_place(task),
        )

    def _start(self, request: messages.Start) -> messages.Started:
        if request.proof is not None:
            numerics.make_deterministic()
        task = self._build(request.task, request.seed)
        drops = request.proof in (None, Rung.BITWISE)
        numerics.switch_functional_dropout(on=drops)
        if not drops:
            numerics.switch_dropout_off(task.model)
        self._masks = MaskWatch(task.model) if request.watch_masks else None
        self._run = Run(Pipeline.from_task(task), request.plan)
        self._batches = self._run.endless()
        return messages.Started(
            applied=tuple(self._run.applied),
            state=digests.digest_state(self._run.pipeline),
        )

    def _repeat(self, request: messages.Repeat) -> messages.Repeated:
        if self._masks is None:
            raise AssertionError("Start with watch_masks comes before this request")
        return repeat(self.run, self._masks, request.count, request.seed, request.limit_s)

    def _warm(self, steps: int) -> messages.Warmed:
        start = time.perf_counter()
        self._timed_steps(1)
        wait_for_children_to_rest()
        preparing = 0
        while self.run.is_warming and preparing < MOST_PREPARING:
            self._timed_steps(1)
            preparing += 1
        times = [self._timed_steps(1)[0] for _ in range(max(steps, 1))]
        return messages.Warmed(
            elapsed_s=time.perf_counter() - start,
            step_s=statistics.median(times),
            applied=tuple(self.run.applied),
        )

    def _time_block(self, steps: int) -> messages.Block:
        self._timed_steps(_prefetched(self.run.pipeline.loader) + 1)
        elapsed, rows = self._timed_steps(steps)
        return messages.Block(elapsed_s=elapsed, rows=rows)

    def _timed_steps(self, steps: int) -> tuple[float, int]:
        """Seconds and rows of whole steps, data wait included, until the device has done them."""
        run, rows = self.run, 0
        device = run.pipeline.device
        start = time.perf_counter()
        for _ in range(steps):
            batch = next(self._batches)
            run.step(batch)
            rows += batches.rows_in(batch)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return time.perf_counter() - start, rows


def _prefetched(loader: object) -> int:
    """Batches that loader workers may hold ready; a block must not count them as its own."""
    if not isinstance(loader, DataLoader):
        return 0
    return loader.num_workers * (loader.prefetch_factor or USUAL_PREFETCH)


def _model_place(task: Task) -> Place | None:
    """Where the model's class is written, unless it is one of torch's own."""
    forward = type(task.model).forward
    code = getattr(forward, "__code__", None)
    if code is None or type(task.model).__module__.startswith("torch."):
        return None
    return place_of(forward)


def serve(requests: int, replies: int) -> None:
    """Answer until the other side closes its end."""
    child = Child()
    while header := os.read(requests, 4):
        body = _read_exactly(requests, struct.unpack("<I", header)[0])
        request = msgspec.msgpack.decode(body, type=messages.AnyRequest)
        try:
            reply: messages.Reply = child.answer(request)
        except Exception as error:  # noqa: BLE001  # a trial's failure is a row, not our end
            reply = _failed(error)
        answer = msgspec.msgpack.encode(reply)
        _write_all(replies, struct.pack("<I", len(answer)) + answer)


def _failed(error: Exception) -> messages.Failed:
    if isinstance(error, HastenError):
        return messages.Failed(kind="error", what=error.what, fix=error.fix, detail=error.detail)
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    wrapped = user_error("The training raised", error)
    return messages.Failed(
        kind="out_of_memory" if memory else "crashed", what=wrapped.what, detail=wrapped.detail
    )


def _read_exactly(descriptor: int, size: int) -> bytes:
    body = b""
    while len(body) < size:
        chunk = os.read(descriptor, size - len(body))
        if not chunk:
            raise SystemExit(0)
        body += chunk
    return body


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _die_with(parent: int) -> None:
    """Ask the kernel to kill us when the parent dies, even while we are stopped (Linux), and the
    loader workers that we fork when we die."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.register_at_fork(after_in_child=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    if os.getppid() != parent:
        raise SystemExit(0)  # it died before we could ask


if __name__ == "__main__":
    _die_with(int(sys.argv[3]))
    sys.path.insert(0, str(Path.cwd()))
    serve(int(sys.argv[1]), int(sys.argv[2]))
