"""A small training with all that a checkpoint must keep: shuffling, workers, dropout, a rate."""

import dataclasses
import random
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import hasten

ROWS, FEATURES, CLASSES, BATCH = 203, 12, 3, 8
"""An epoch has 26 batches, the last of 3 rows."""


class Rows(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, *, noise: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(ROWS, FEATURES, generator=generator)
        self.targets = torch.randint(0, CLASSES, (ROWS,), generator=generator)
        self.noise = noise

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = 0.1 * torch.randn(FEATURES) + 0.1 * random.random() if self.noise else 0.0
        return self.inputs[index] + noise, self.targets[index]


def _task(workers: int, *, noise: bool = False) -> hasten.Task:
    torch.manual_seed(4)
    model = nn.Sequential(
        nn.Linear(FEATURES, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
    )
    evaluation = Rows()
    return hasten.Task(
        model=model,
        data=DataLoader(Rows(noise=noise), batch_size=BATCH, shuffle=True, num_workers=workers),
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100),
        clip_norm=1.0,
        evaluation_data=(evaluation.inputs[:40], evaluation.targets[:40]),
    )


def make_task() -> hasten.Task:
    return _task(workers=2)


def make_noisy_task() -> hasten.Task:
    """Its items draw random numbers, in the workers."""
    return _task(workers=2, noise=True)


def make_task_without_workers() -> hasten.Task:
    return _task(workers=0)


def make_task_that_fails() -> hasten.Task:
    """At its tenth step, in its loss."""
    task, calls = _task(workers=0), iter(range(100))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if next(calls) == 9:
            raise ArithmeticError("the tenth")
        return F.cross_entropy(outputs, targets)

    return hasten.Task(model=task.model, data=task.data, optimizer=task.optimizer, loss=loss)


def make_task_that_leaves() -> hasten.Task:
    """Ends the program at its tenth step, as if all were well."""
    task, calls = _task(workers=0), iter(range(100))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if next(calls) == 9:
            sys.exit(0)
        return F.cross_entropy(outputs, targets)

    return dataclasses.replace(task, loss=loss)


def make_task_that_leaves_its_evaluation() -> hasten.Task:
    leaves = hasten.Metric(compute=_leave, higher_is_better=True)
    return dataclasses.replace(_task(workers=0), metrics={"leaves": leaves})


def make_task_that_leaves_its_optimizer() -> hasten.Task:
    return dataclasses.replace(_task(workers=0), optimizer=_leave)


def _leave(*_: object) -> Any:
    sys.exit(0)


class Scatters(nn.Module):
    """By an operation that has no deterministic form."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        return outputs + torch.zeros(4).put_(torch.tensor([1, 1]), torch.ones(2))[0]


def make_task_that_scatters() -> hasten.Task:
    task = _task(workers=0)
    return hasten.Task(
        model=Scatters(), data=task.data, optimizer=task.optimizer, loss=F.cross_entropy
    )
