"""Workers that die, raise or are slow: who it was is said, nothing hangs, the order is kept."""

import os
import time
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from hasten.data.ahead.manner import Manner
from hasten.data.ahead.workers import WorkerDiedError, WorkersLoader
from hasten.records.loading import WorkerSettings

ROWS = 22
TWO = WorkerSettings(workers=2)


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3,), float(index)), index


class Killed(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 9 and get_worker_info() is not None:
            os.kill(os.getpid(), 9)
        return super().__getitem__(index)


def test_a_worker_that_is_killed_is_named_whenever_that_is_noticed_and_nothing_hangs() -> None:
    one = WorkerSettings(workers=1)
    loader = WorkersLoader(DataLoader(Killed(), batch_size=4), one, manner=Manner())
    began = time.monotonic()
    for _ in range(16):  # by its signal, its connection, or as the next batch is asked for
        with pytest.raises(WorkerDiedError, match=r"worker 0 \(process \d+\) ended by signal 9"):
            list(loader)
    assert time.monotonic() - began < 60


def test_a_worker_that_dies_while_the_training_computes_is_told_with_the_next_batch() -> None:
    loader = WorkersLoader(DataLoader(Items(), batch_size=4), TWO, manner=Manner())
    before = psutil.Process().children()
    batches = iter(loader)
    next(batches)
    for worker in set(psutil.Process().children()) - set(before):
        worker.kill()
    for _ in range(20):
        time.sleep(0.01)  # where torch would raise
    with pytest.raises(WorkerDiedError, match="ended by signal 9"):
        for _ in batches:
            pass


class Broken(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 5:
            raise ValueError("row 5 is broken")
        return super().__getitem__(index)


def test_what_a_worker_raises_has_its_own_traceback_and_the_epoch_can_go_on() -> None:
    for loader in (
        WorkersLoader(DataLoader(Broken(), batch_size=4), TWO, manner=Manner()),
        DataLoader(Broken(), batch_size=4),
    ):
        batches = iter(loader)
        assert next(batches)[1].tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="row 5 is broken") as raised:
            next(batches)
        if isinstance(loader, WorkersLoader):
            assert "worker process 1" in str(raised.value)
            assert "in __getitem__" in str(raised.value)
        assert [each[1].tolist()[0] for each in batches] == [8, 12, 16, 20]


class Slow(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.2 if index == 0 else 0)
        return super().__getitem__(index)


def test_a_slow_worker_does_not_change_the_order() -> None:
    loader = WorkersLoader(DataLoader(Slow(), batch_size=2), TWO, manner=Manner())
    assert [row for batch in loader for row in batch[1].tolist()] == list(range(ROWS))
