"""Tasks that are wrong, end their process or flood its output."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from planted import small
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

import hasten


def not_a_task() -> dict[str, int]:
    return {"model": 1}


def raises_while_building() -> hasten.Task:
    raise KeyError("the table has no column 'label'")


class RaisingModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, rows: Tensor) -> Tensor:
        raise ValueError("expected 3 channels, got 16")


def model_raises() -> hasten.Task:
    task = small()
    return hasten.Task(
        model=RaisingModel(),
        data=task.data,
        loss=task.loss,
        optimizer=task.optimizer,
        batch_size=32,
    )


def loses_its_number() -> hasten.Task:
    task = small()
    return hasten.Task(
        model=task.model,
        data=task.data,
        forward=lambda model, batch: model(batch[0]).sum() * float("nan"),
        optimizer=task.optimizer,
        batch_size=32,
    )


def evaluates_on_nothing() -> hasten.Task:
    task = small()
    return replace(task, evaluation_data=(torch.randn(0, 16), torch.randint(0, 4, (0,))))


class EmptyStream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(())


def evaluates_on_an_empty_stream() -> hasten.Task:
    return replace(small(), evaluation_data=DataLoader(EmptyStream()))


class EndlessStream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield torch.randn(16)
        raise KeyError("only the first row is asked for")


def evaluates_on_an_endless_stream() -> hasten.Task:
    return replace(small(), evaluation_data=DataLoader(EndlessStream()))


def evaluation_data_raises() -> hasten.Task:
    return replace(small(), evaluation_data=(torch.randn(4, 16), torch.randn(5)))


def kills_itself() -> hasten.Task:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def interrupts_itself() -> hasten.Task:
    raise KeyboardInterrupt


def exits_in_a_step() -> hasten.Task:
    def step(model: nn.Module, batch: list[Tensor]) -> Tensor:
        raise SystemExit(0)

    return replace(small(), loss=None, forward=step)


def ends_itself() -> hasten.Task:
    os._exit(3)


def hangs() -> hasten.Task:
    time.sleep(3600)
    raise AssertionError("unreachable")


def prints_much() -> hasten.Task:
    print("x" * 200_000)
    return small()
