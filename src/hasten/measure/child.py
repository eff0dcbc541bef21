"""What runs in a worker process: builds a task, applies a plan, and answers requests.

One of the few places with a broad except: whatever the user's code or a technique raises here
becomes a reply, and the tuner goes on.
"""

import faulthandler
import math
import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.host.forked import die_with
from hasten.measure import digests, messages, numerics
from hasten.measure.blocks import batches_ahead, has_workers, time_block, timed_steps, warm
from hasten.measure.ceilings import measure_ceilings
from hasten.measure.edited import read_instead
from hasten.measure.evaluation import Evaluation, techniques_in_evaluation
from hasten.measure.export import export_trace
from hasten.measure.launches import count_launches
from hasten.measure.line_watch import watch_lines
from hasten.measure.loading import measure_loading
from hasten.measure.peak import measure_peak
from hasten.measure.phases import measure_phases
from hasten.measure.placement import threads_to_place
from hasten.measure.randomness import MaskWatch, repeat
from hasten.measure.replay import measure_bounds
from hasten.measure.resuming import train_for
from hasten.measure.seeded import train_seed
from hasten.measure.sources import own_sources
from hasten.measure.syncs import find_syncs
from hasten.measure.target import train_to_target
from hasten.measure.work import count_work
from hasten.records.applied import Applied
from hasten.records.finding import Place
from hasten.records.plan import Rung
from hasten.runtime.evaluate import refuse_empty
from hasten.runtime.memory import give_back_memory, ran_out_of_memory, read_memory
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.load import Factory, build_task, load_factory, place_of, user_error
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from hasten.task.traits import read_traits
from hasten.techniques import registry


class Child:
    """The state of one worker: the task by its name and, once started, a run of it."""

    def __init__(self, began: float, loaded_s: float) -> None:
        """``began`` is when the process was started, by the clock that all processes share;
        ``loaded_s`` is what loading took that building the task would else have done."""
        self._factories: dict[str, Factory] = {}
        self._run: Run | None = None
        self._masks: MaskWatch | None = None
        self._batches: Iterator[Any] = iter(())
        self._evaluation: Evaluation | None = None
        self._import_s = time.monotonic() - began
        self._loaded_s = loaded_s
        self._build_s = 0.0
        self._ahead = 0
        self._variables = _variables()

    def answer(self, request: messages.AnyRequest) -> messages.Reply:
        match request:
            case messages.Describe():
                return self._describe(request)
            case messages.Start():
                return self._start(request)
            case messages.DigestState():
                return messages.StateDigested(state=digests.digest_state(self.run.pipeline))
            case messages.WatchLines():
                return watch_lines(lambda: self._build(request.task, request.seed), request)
            case messages.Warm():
                return self._warm(request.steps)
            case messages.TimeBlock():
                return self._time_block(request.steps)
            case messages.MeasurePhases():
                return self._measure_phases(request.steps)
            case messages.ReadOutcome():
                return messages.OutcomeRead(memory=read_memory(), applied=self._applied())
            case messages.FindSyncs():
                self._warm(1)
                return messages.SyncsFound(sites=find_syncs(self.run, self._batches, request.steps))
            case messages.ReadLatencies():
                return self.evaluation.read()
            case messages.MeasurePeak():
                return messages.PeakMeasured(memory=measure_peak(self.run, self._batches))
            case messages.ExportTrace():
                path = Path(request.path)
                return messages.TraceExported(steps=export_trace(self.run, self._batches, path))
            case messages.MeasureBounds():
                bounds = measure_bounds(self.run, self._batches, self._ahead)
                return messages.BoundsMeasured(bounds=bounds)
            case messages.MeasureLoading():
                pipeline = self.run.pipeline
                return measure_loading(pipeline.loader, pipeline.device, request.seconds)
            case messages.CountLaunches():
                return messages.LaunchesCounted(launches=count_launches(self.run, self._batches))
            case messages.CountWork():
                return count_work(self.run, self._batches)
            case messages.MeasureCeilings():
                ceilings = measure_ceilings(self.run.pipeline.device)
                return messages.CeilingsMeasured(ceilings=ceilings)
            case messages.DigestData():
                return digests.digest_data(self.run, request.epochs, request.limit_s)
            case messages.Trace():
                return numerics.trace(self.run, request)
            case messages.Repeat():
                return self._repeat(request)
            case messages.TrainSeed():
                return train_seed(self._build(request.task, request.seed), request)
            case messages.TrainToTarget():
                return train_to_target(self._build(request.task, request.seed), request)
            case messages.TrainFor():
                return train_for(request)

    @property
    def run(self) -> Run:
        if self._run is None:
            raise AssertionError("Start comes before this request")
        return self._run

    @property
    def evaluation(self) -> Evaluation:
        if self._evaluation is None:
            raise AssertionError("Start with evaluated_rows comes before this request")
        return self._evaluation

    def _load(self, name: str, seed: int) -> Factory:
        if name not in self._factories:
            start = time.perf_counter()
            seed_everything(seed)  # a script may make its data where it is imported
            self._factories[name] = load_factory(name)
            self._import_s += time.perf_counter() - start
        return self._factories[name]

    def _build(self, name: str, seed: int) -> Task:
        return build_task(self._load(name, seed), name, seed)

    def _describe(self, request: messages.Describe) -> messages.Described:
        for where, plan in request.plans.items():
            registry.refuse_bad_parts(plan, where=where)  # building the task may take long
        task = self._build(request.task, request.seed)
        for where, plan in request.plans.items():
            registry.decode(plan, where=where)
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
        try:
            refuse_empty(task, asks=True)  # of a task that is built for this and nothing else
        except Exception as error:
            raise user_error(f"{request.task} does not evaluate", error) from error
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
            in_evaluation=techniques_in_evaluation(),
            schema=msgspec.json.encode(registry.recipe_schema()),
            task_place=place_of(self._factories[request.task]),
            model_place=_model_place(task),
            sources=own_sources(),
            sets_variables=_variables() != self._variables,
        )

    def _start(self, request: messages.Start) -> messages.Started:
        if request.edited:
            read_instead(request.edited)
        if request.proof is not None:
            numerics.make_deterministic()
        self._load(request.task, request.seed)
        start = time.perf_counter()
        task = self._build(request.task, request.seed)
        if request.evaluated_rows is not None:
            self._evaluation = Evaluation(task, request.plan, request.evaluated_rows)
            return messages.Started(applied=tuple(self._evaluation.run.applied))
        is_traced = request.proof not in (None, Rung.BITWISE)
        numerics.switch_functional_dropout(on=not is_traced)
        if is_traced:
            numerics.switch_dropout_off(task.model)
        if request.proof is not None:
            numerics.compute_in_whole_fp32()
        self._masks = MaskWatch(task.model) if request.watch_masks else None
        self._run = Run(Pipeline.from_task(task), request.plan)
        self._batches = self._run.endless()
        self._build_s = time.perf_counter() - start + self._loaded_s
        return messages.Started(applied=tuple(self._run.applied))

    def _repeat(self, request: messages.Repeat) -> messages.Repeated:
        if self._masks is None:
            raise AssertionError("Start with watch_masks comes before this request")
        return repeat(self.run, self._masks, request.count, request.seed, request.limit_s)

    def _warm(self, steps: int) -> messages.Warmed:
        if self._evaluation is not None:
            return self._evaluation.warm(steps)
        start = time.perf_counter()
        timed_steps(self.run, self._batches, 1)
        step_s = warm(self.run, self._batches, steps)
        elapsed_s = time.perf_counter() - start
        self._ahead = batches_ahead(self.run, self._batches, step_s)
        loader, device = self.run.pipeline.loader, self.run.pipeline.device
        return messages.Warmed(
            elapsed_s=elapsed_s,
            step_s=step_s,
            applied=self._applied(),
            threads=threads_to_place(device, beside_workers=has_workers(loader)),
            ahead=self._ahead,
            has_workers=has_workers(loader),
            device=device.type,
        )

    def _applied(self) -> tuple[Applied, ...]:
        """A step that had to be redone is no matter to a training, but no speed to be proud of."""
        run = self.run if self._evaluation is None else self._evaluation.run
        applied, hiccups = run.applied, run.hiccups
        if not hiccups:
            return tuple(applied)
        return tuple(
            Applied(technique=each.technique, outcome="fell_back", why=hiccups[0])
            for each in applied
        )

    def _time_block(self, steps: int) -> messages.Block:
        if self._evaluation is not None:
            return self._evaluation.time_block(steps)
        elapsed, rows = time_block(self.run, self._batches, steps, unmeasured=self._ahead + 1)
        return messages.Block(elapsed_s=elapsed, rows=rows)

    def _measure_phases(self, steps: int) -> messages.Measured:
        measured = measure_phases(self.run, self._batches, steps)
        return messages.Measured(
            measurement=msgspec.structs.replace(
                measured, import_s=self._import_s, build_s=self._build_s
            )
        )


def _model_place(task: Task) -> Place | None:
    """Where the model's class is written, unless it is one of torch's own."""
    forward = type(task.model).forward
    code = getattr(forward, "__code__", None)
    if code is None or type(task.model).__module__.startswith("torch."):
        return None
    return place_of(forward)


def _variables() -> dict[str, str]:
    """Of the environment, but for one that torch sets itself, and reads when it is needed."""
    return {name: each for name, each in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}


def serve(requests: int, replies: int, began: float, loaded_s: float = 0.0) -> None:
    """Answer until the other side closes its end."""
    # Written without Python's lock, which a hung task may hold.
    faulthandler.register(messages.DUMP_STACKS)
    sys.path.insert(0, str(Path.cwd()))
    child = Child(began, loaded_s)
    while header := os.read(requests, 4):
        body = _read_exactly(requests, struct.unpack("<I", header)[0])
        request = msgspec.msgpack.decode(body, type=messages.AnyRequest)
        try:
            reply: messages.Reply = child.answer(request)
        # A trial's failure is a row, not our end. Ctrl-C does not come here: the task raised that.
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001
            reply = _failed(error)
        if isinstance(request, messages.TrainSeed):  # the other side of a pair is next
            give_back_memory()
        answer = msgspec.msgpack.encode(reply)
        _write_all(replies, struct.pack("<I", len(answer)) + answer)


def _failed(error: BaseException) -> messages.Failed:
    if isinstance(error, HastenError):
        too_large = error.__cause__ is not None and ran_out_of_memory(error.__cause__)
        return messages.Failed(
            kind="out_of_memory" if too_large else "error",
            what=error.what,
            fix=error.fix,
            detail=error.detail,
        )
    wrapped = user_error("The training raised", error)
    return messages.Failed(
        kind="out_of_memory" if ran_out_of_memory(error) else "raised",
        what=wrapped.what,
        detail=wrapped.detail,
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


if __name__ == "__main__":
    die_with(int(sys.argv[3]))
    serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[4]))
