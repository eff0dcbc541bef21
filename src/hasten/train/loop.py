"""The loop: batch, step, tell, save, evaluate, until it is done or asked to stop.

Between two steps the training is all in its run, its position and the epoch; only there is it
saved and stopped. Nothing here waits for the device but saving, evaluating and the end.
"""

import math
import time
from typing import Any

from hasten.data.loaders.epochs import EpochStart
from hasten.errors import HastenError
from hasten.records.applied import Applied
from hasten.records.checkpoint import Position
from hasten.records.training import (
    CheckpointEvent,
    EvaluationEvent,
    NoteEvent,
    StepEvent,
    TrainingSummary,
)
from hasten.runtime.evaluate import evaluate
from hasten.runtime.loading import Epoch
from hasten.runtime.memory import read_memory
from hasten.runtime.run import Run
from hasten.task.load import user_error
from hasten.task.task import Task
from hasten.train.log import EVENTS
from hasten.train.meter import Meter
from hasten.train.resume import batches_per_epoch
from hasten.train.saving import Saver
from hasten.train.signals import StopRequest
from hasten.train.sinks import Sinks
from hasten.train.wanted import EACH_EPOCH, Wanted

WORKER_ENDED = "DataLoader worker"
"""So begins what torch says of one that has died."""


class _StoppedError(Exception):
    """Ends an evaluation; never leaves this file."""


class Loop:
    def __init__(
        self,
        wanted: Wanted,
        name: str | None,
        task: Task,
        run: Run,
        saver: Saver | None,
        sinks: Sinks,
        stop: StopRequest,
    ) -> None:
        self._wanted, self._name, self._task = wanted, name, task
        self._run, self._saver, self._sinks, self._stop = run, saver, sinks, stop
        self._step = self._epochs = self._batches = 0
        self._epoch: Epoch | None = None
        self._batch: Any = None
        self._resumed_from: int | None = None
        self._metrics: dict[str, float] = {}
        self._evaluated_step: int | None = None
        self._told: list[Applied] = []
        self._is_first = self._was_finite = True
        self._is_exhausted = False
        self._notes: list[str] = []
        self._meter: Meter
        self._users_code = _UsersCode(self, "")
        self._users_evaluation = _UsersCode(self, " in the evaluation")

    def train(self, position: Position, epoch: Epoch | None, notes: list[str]) -> TrainingSummary:
        """From ``position`` on, within ``epoch`` where that has begun."""
        self._step, self._epochs, self._batches = position.step, position.epoch, position.batches
        self._epoch = epoch
        self._resumed_from = position.step or None
        self._meter = Meter(self._run, every=self._wanted.log_every, first_step=position.step)
        try:
            self._start(position, notes)
            self._train()
            return self._end()
        finally:
            self._epoch = None  # ends its workers
            self._sinks.close()

    def _start(self, position: Position, notes: list[str]) -> None:
        self._sinks.started(position, self._total_steps())
        if self._saver is not None and self._saver.path is not None:
            self._say(f"resumed from {self._saver.path}")
        for words in notes:
            self._note(words)
        if self._wanted.evaluate_every != EACH_EPOCH and self._task.evaluation_data is None:
            self._note("nothing to evaluate: the task has no evaluation data")
        if self._saver is not None:
            self._saver.try_out(self._position(), self._epoch_start(), None)

    def _train(self) -> None:
        while not self._is_over():
            if self._epoch is None:
                with self._users_code:
                    self._run.start_epoch()
                    self._epoch = Epoch(self._run)
            while not self._is_over():
                if not self._fetch():
                    self._end_epoch()
                    break
                self._do_step()
                self._between_steps()

    def _is_over(self) -> bool:
        return self._stop.signal is not None or self._is_done()

    def _is_done(self) -> bool:
        if self._wanted.steps is not None:
            return self._step >= self._wanted.steps
        return self._epochs >= (self._wanted.epochs or 1)

    def _fetch(self) -> bool:
        """The next batch; False where the epoch, or all, has ended."""
        assert self._epoch is not None  # it has begun
        began = time.monotonic()
        try:
            with self._users_code:
                self._stop.raise_worker_error()
                self._batch = next(self._epoch)
        except StopIteration:
            self._is_exhausted = True
            return False
        except RuntimeError as error:
            if self._stop.signal is None or WORKER_ENDED not in str(error):
                raise
            return False  # a signal to all ends the loader's workers too
        finally:
            self._meter.waited(time.monotonic() - began)
        return True

    def _do_step(self) -> None:
        self._stop.nothing_to_lose = False
        self._meter.before()
        with self._users_code:
            self._run.step(self._batch)
        self._step += 1
        self._batches += 1
        self._meter.after(self._batch, self._epochs)

    def _between_steps(self) -> None:
        self._sinks.stepped(self._step)
        self._tell()
        every = self._wanted.evaluate_every
        if every.unit == "step" and self._step % every.count == 0:
            self._evaluate()
        if self._saver is not None:
            if self._is_first:  # the optimizer has its state by now
                self._saver.try_out(self._position(), self._epoch_start(), self._batch)
                self._is_first = False
            if self._saver.is_due(self._step):
                self._save(self._saver)

    def _end_epoch(self) -> None:
        if self._stop.signal is not None:
            return  # it was cut short, perhaps
        if not self._batches:
            raise HastenError("The training data gives no batch.", fix="Give it some rows.")
        with self._users_code:
            self._run.end_epoch()
        self._epochs += 1
        self._is_exhausted = False
        self._batches, self._epoch, self._batch = 0, None, None
        self._evaluate_epoch()

    def _epochs_done(self) -> int:
        """Also one that has no batch left: what is to be done at its end is left to a training
        that goes on."""
        has_all = 0 < self._batches == batches_per_epoch(self._run)
        return self._epochs + (self._is_exhausted or has_all)

    def _evaluate_epoch(self) -> None:
        every = self._wanted.evaluate_every
        if every.unit == "epoch" and self._epochs_done() % every.count == 0:
            self._evaluate()

    def _tell(self) -> None:
        self._tell_steps(self._meter.events())
        if self._saver is not None:
            self._tell_checkpoints(self._saver)
        for each in self._run.dropped:
            if each not in self._told:
                self._told.append(each)
                self._note(f"{each.technique} {each.outcome.replace('_', ' ')}: {each.why}")

    def _tell_checkpoints(self, saver: Saver) -> None:
        for path, manifest, stalled_s in saver.finished():
            self._sinks.event(
                CheckpointEvent(
                    step=manifest.position.step,
                    elapsed_s=self._meter.elapsed_s,
                    path=str(path),
                    healthy=manifest.healthy,
                    stalled_s=stalled_s,
                )
            )

    def _tell_steps(self, events: list[StepEvent]) -> None:
        for event in events:
            self._sinks.event(event)
            if event.loss is not None and not math.isfinite(event.loss) and self._was_finite:
                self._was_finite = False
                self._note(f"the loss is not finite at step {event.step}")

    def _note(self, words: str) -> None:
        self._notes.append(words)
        self._say(words)

    def _say(self, words: str) -> None:
        self._sinks.event(NoteEvent(step=self._step, elapsed_s=self._meter.elapsed_s, words=words))

    def _save(self, saver: Saver) -> None:
        with self._meter.paused():
            saver.save(self._position(), self._epoch_start(), self._batch)

    def _evaluate(self) -> None:
        if self._task.evaluation_data is None or self._evaluated_step == self._step:
            return
        with self._meter.paused():
            began = time.monotonic()
            with self._users_evaluation:
                try:
                    found = self._unless_stopped()
                except (Exception, SystemExit):
                    if self._saver is not None:  # the steps before are not to blame
                        self._saver.save(self._position(), self._epoch_start(), self._batch)
                    raise
            took_s = time.monotonic() - began
        if found is None:
            return
        self._metrics = found
        self._evaluated_step = self._step
        self._sinks.event(
            EvaluationEvent(
                step=self._step,
                epoch=self._epochs_done(),
                elapsed_s=self._meter.elapsed_s,
                took_s=took_s,
                metrics=dict(self._metrics),
            )
        )

    def _unless_stopped(self) -> dict[str, float] | None:
        """Whoever asks to stop does not wait for an evaluation."""

        def look(batches: int) -> None:
            if self._stop.signal is not None:
                raise _StoppedError

        try:
            return evaluate(self._task, look)
        except _StoppedError:
            return None

    def _end(self) -> TrainingSummary:
        self._tell_steps(self._meter.finish(self._epochs))
        if self._epochs_done() > self._epochs and self._stop.signal is None:
            self._evaluate_epoch()  # the last step was the last of an epoch
        if self._saver is not None:
            self._save_the_end(self._saver)
        self._tell()
        summary = self._summary()
        self._sinks.ended(summary)
        return summary

    def _save_the_end(self, saver: Saver) -> None:
        """Even where the one before could not be written: there may be room by now."""
        if self._stop.signal is not None:
            self._say(f"{self._stop.words}: saving; a Ctrl-C now leaves without")
        try:
            saver.wait()
        except HastenError as error:
            self._note(str(error))
            saver.saved_step = None
        if saver.saved_step != self._step:
            self._save(saver)
        saver.wait()

    def _summary(self) -> TrainingSummary:
        saver = self._saver
        done = self._is_done()
        return TrainingSummary(
            task=self._name,
            plan=self._run.plan.parts,
            outcome="done" if done else "stopped",
            why=self._why(done),
            signal=self._stop.signal,
            step=self._step,
            epoch=self._epochs_done(),
            resumed_from=self._resumed_from,
            rows=self._meter.total.rows,
            elapsed_s=self._meter.elapsed_s,
            rows_per_s=self._meter.pace.rows_per_s(),
            data_wait=self._meter.pace.data_wait(),
            loss=self._meter.loss,
            metrics=dict(self._metrics),
            memory=read_memory(),
            applied=tuple(self._run.applied),
            claim=self._wanted.claim,
            checkpoint=None if saver is None or saver.path is None else str(saver.path),
            healthy=None if saver is None or saver.path is None else saver.is_healthy,
            log=None if saver is None else str(saver.folder / EVENTS),
            notes=(*self._notes, *self._sinks.dropped),
        )

    def _why(self, done: bool) -> str:
        if done:
            unit = "steps" if self._wanted.steps is not None else "epochs"
            count = self._step if unit == "steps" else self._epochs
            wanted = self._wanted.steps or self._wanted.epochs or 1
            if count > wanted:
                return f"{count:,} {unit} were done before, and {wanted:,} were asked for"
            return f"all {count:,} {unit} are done" if count > 1 else f"the one {unit[:-1]} is done"
        return f"{self._stop.words} came after step {self._step:,}"

    def _position(self) -> Position:
        return Position(step=self._step, epoch=self._epochs, batches=self._batches)

    def _epoch_start(self) -> EpochStart:
        if self._epoch is not None:
            return self._epoch.start
        return EpochStart.now(self._run.pipeline.loader, later=self._epochs > 0)

    def _total_steps(self) -> int | None:
        if self._wanted.steps is not None:
            return self._wanted.steps
        length = batches_per_epoch(self._run)
        return None if length is None else length * (self._wanted.epochs or 1)

    def blame(self, error: Exception | SystemExit, where: str) -> HastenError | None:
        """What the user's code raised, in the words of a command; None where it is to be raised as
        it is, to a program, or to whoever asked to stop."""
        if self._name is None or self._stop.signal is not None:
            return None
        what = f"{self._name} raised{where} after step {self._step}"
        return user_error(what, error, fix=self._what_is_left())

    def _what_is_left(self) -> str:
        if self._saver is None:
            return "Mend that. With a folder for checkpoints less would be lost."
        try:
            self._saver.wait()
        except HastenError as error:
            return f"Mend that. {error}"
        self._tell_checkpoints(self._saver)
        if self._saver.path is None:
            return "Mend that; nothing had been saved yet."
        fix = f"Mend that, and go on from {self._saver.path} by --resume."
        return f"Every step is saved. {fix}" if self._saver.saved_step == self._step else fix


class _UsersCode:
    """Around what calls it, so that a fault of ours is never called theirs."""

    def __init__(self, loop: Loop, where: str) -> None:
        self._loop, self._where = loop, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        ours = HastenError | StopIteration | _StoppedError
        if isinstance(error, Exception | SystemExit) and not isinstance(error, ours):
            wrapped = self._loop.blame(error, self._where)
            if wrapped is not None:
                raise wrapped from error
