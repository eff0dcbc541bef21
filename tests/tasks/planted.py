"""Small tasks, loaded as a user's file would be; with planted techniques, right and wrong ones."""

import itertools
import time

import brisk  # noqa: F401  # nothing here hangs on timing
import torch
import wrong_techniques  # noqa: F401  # registers them
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hasten


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def small() -> hasten.Task:
    """Few rows: loads and steps in no time."""
    rows = torch.randn(192, 16), torch.randint(0, 4, (192,))
    return hasten.Task(
        model=_model(),
        data=rows,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=32,
    )


def seeded_from_the_clock() -> hasten.Task:
    torch.manual_seed(time.time_ns())
    return small()


def _like_small(model: nn.Module, dtype: torch.dtype = torch.float32) -> hasten.Task:
    task = small()
    rows, targets = task.data  # type: ignore[misc]
    return hasten.Task(
        model=model.to(dtype),
        data=(rows.to(dtype), targets),
        loss=task.loss,
        optimizer=task.optimizer,
        batch_size=32,
    )


def with_dropout() -> hasten.Task:
    return _like_small(
        nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
    )


def with_batchnorm() -> hasten.Task:
    return _like_small(nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)))


def in_fp64() -> hasten.Task:
    return _like_small(_model(), torch.float64)


class Counting(nn.Module):
    """Another function at each call, counted where nothing that redoes a step can know of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)
        self.calls = itertools.count(1)

    def forward(self, rows: Tensor) -> Tensor:
        output: Tensor = self.layer(rows) * (1 + 0.1 * next(self.calls))
        return output


def counting() -> hasten.Task:
    return _like_small(Counting())


ROWS = torch.randn(192, 16)


def data_of_the_module() -> hasten.Task:
    """Its rows are drawn where the file is imported."""
    task = small()
    return hasten.Task(
        model=task.model,
        data=(ROWS, torch.randint(0, 4, (192,))),
        loss=task.loss,
        optimizer=task.optimizer,
        batch_size=32,
    )


def slow_loader() -> hasten.Task:
    """Large batches of small rows: nearly all of the step is spent collating them."""
    rows = torch.randn(4096, 16), torch.randint(0, 4, (4096,))
    return hasten.Task(
        model=nn.Linear(16, 4),
        data=rows,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
        batch_size=512,
    )


def with_loader_workers() -> hasten.Task:
    data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
    return hasten.Task(
        model=_model(),
        data=DataLoader(data, batch_size=32, shuffle=True, num_workers=2),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    )
