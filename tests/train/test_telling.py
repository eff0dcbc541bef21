"""What a training tells: the first step at once, where it goes on from, what it cannot do."""

import dataclasses
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import KilledAt, bits_at, same_bits
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import IterableDataset

from hasten.records.training import EvaluationEvent, NoteEvent, StepEvent, TrainingSummary
from hasten.task.task import Task
from hasten.train.fit import fit

EPOCH = 5
"""Batches, the last of two rows."""


class Told:
    """A sink that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def started(self, *_: object) -> None: ...
    def stepped(self, step: int) -> None: ...
    def ended(self, summary: TrainingSummary) -> None: ...

    def event(self, event: object) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.events if type(each) is kind]


def make_task(*, evaluates: bool = False) -> Task:
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(2)
    data = torch.randn(34, 6, generator=generator), torch.arange(34) % 3
    return Task(
        model=nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 3)),
        data=data,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        scheduler=lambda optimizer: ExponentialLR(optimizer, 0.5),
        scheduler_unit="epoch",
        batch_size=8,
        evaluation_data=data if evaluates else None,
    )


@pytest.mark.parametrize(
    ("every", "steps", "told"),
    [
        (4, 10, [1, 4, 8, 10]),
        (4, 8, [1, 4, 8]),
        (1, 3, [1, 2, 3]),
        (50, 1, [1]),
        (50, 2, [1, 2]),
    ],
)
def test_the_first_step_is_told_too(every: int, steps: int, told: list[int]) -> None:
    sink = Told()
    summary = fit(make_task(), steps=steps, log_every=every, sinks=[sink])
    events = sink.of(StepEvent)
    assert [each.step for each in events] == told
    assert all(each.loss > 0 and each.rows_per_s > 0 for each in events)
    assert summary.loss == events[-1].loss


class Prepares(nn.Module):
    """Takes long in its first step, as one that is compiled then."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.is_ready = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training and not self.is_ready:
            self.is_ready = True
            time.sleep(1.5)
        return self.layer(inputs)


def test_what_the_first_step_prepares_is_not_in_the_throughput() -> None:
    task = dataclasses.replace(make_task(), model=Prepares())
    summary = fit(task, steps=10)
    assert summary.rows == 68
    assert summary.elapsed_s > 1.5
    assert summary.rows_per_s > 100, "68 rows in 1.5 s would be 45"
    alone = fit(dataclasses.replace(make_task(), model=Prepares()), steps=1)
    assert 0 < alone.rows_per_s < 8, "there is no other step"


def test_a_last_checkpoint_that_is_not_healthy_is_said_to_be(tmp_path: Path) -> None:
    def diverging(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=math.inf)

    task = dataclasses.replace(make_task(), optimizer=diverging)
    assert fit(task, steps=2).healthy is None
    assert fit(task, steps=2, checkpoint_dir=tmp_path / "a").healthy is False
    fit(make_task(), steps=2, checkpoint_dir=tmp_path / "b")
    resumed = fit(make_task(), steps=2, checkpoint_dir=tmp_path / "b", resume=True)
    assert resumed.healthy is True


def test_every_process_tells_its_first_step_and_where_it_goes_on_from(tmp_path: Path) -> None:
    fit(make_task(), steps=7, checkpoint_dir=tmp_path)
    sink = Told()
    summary = fit(make_task(), steps=12, checkpoint_dir=tmp_path, resume=True, sinks=[sink])
    assert [each.step for each in sink.of(StepEvent)] == [8, 12]
    first = sink.events[0]
    assert isinstance(first, NoteEvent)
    assert (first.step, first.words) == (7, f"resumed from {tmp_path / 'step-00000007'}")
    assert summary.notes == ()  # the summary has a field for that


def test_a_wish_to_evaluate_nothing_is_told_where_it_was_one() -> None:
    words = "nothing to evaluate: the task has no evaluation data"
    assert fit(make_task(), steps=2).notes == ()
    assert fit(make_task(), steps=2, evaluate_every="1 step").notes == (words,)
    assert fit(make_task(evaluates=True), steps=2, evaluate_every="1 step").notes == ()


@pytest.mark.parametrize("stop", [EPOCH - 1, EPOCH, 2 * EPOCH])
def test_an_epoch_that_is_stopped_at_its_end_is_counted_and_gone_on_from(
    stop: int, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fit(make_task(), steps=13, checkpoint_dir=whole)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        sinks = [KilledAt(stop, signal.SIGTERM)]
        stopped = fit(make_task(), epochs=3, checkpoint_dir=parts, sinks=sinks)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (stopped.outcome, stopped.step, stopped.epoch) == ("stopped", stop, stop // EPOCH)
    sink = Told()
    resumed = fit(make_task(), steps=13, checkpoint_dir=parts, resume=True, sinks=[sink])
    assert (resumed.step, resumed.epoch) == (13, 2)
    assert same_bits(bits_at(parts, 13), bits_at(whole, 13))


class Ending(IterableDataset[Any]):
    """Nobody knows its length; a signal comes when its last item is gone."""

    def __iter__(self) -> Iterator[Any]:
        for index in range(16):
            yield torch.full((6,), float(index)), torch.tensor(index % 3)
        os.kill(os.getpid(), signal.SIGTERM)


def test_an_epoch_without_a_length_is_counted_too() -> None:
    task = dataclasses.replace(make_task(), data=Ending(), shuffle=False)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        stopped = fit(task, epochs=3)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (stopped.outcome, stopped.step, stopped.epoch) == ("stopped", 2, 1)


def test_a_last_step_at_the_end_of_an_epoch_is_evaluated_and_gone_on_from(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fit(make_task(evaluates=True), steps=13, checkpoint_dir=whole)
    sink = Told()
    done = fit(make_task(evaluates=True), steps=EPOCH, checkpoint_dir=parts, sinks=[sink])
    assert (done.epoch, [each.epoch for each in sink.of(EvaluationEvent)]) == (1, [1])
    assert done.metrics["loss"] == sink.of(EvaluationEvent)[0].metrics["loss"]
    fit(make_task(evaluates=True), steps=13, checkpoint_dir=parts, resume=True)
    assert same_bits(bits_at(parts, 13), bits_at(whole, 13))
