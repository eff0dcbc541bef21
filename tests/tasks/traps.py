"""Trainings that a careless tuner would break, each in its own way.

Measuring is cut short in the processes that load this file: how fast they are is of no matter.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import hasten
import hasten.measure.ceilings
import hasten.measure.phases
import hasten.measure.replay

hasten.measure.replay.USUAL_S = 0.5
hasten.measure.phases.ENOUGH_S = 1.0
hasten.measure.ceilings.EACH_S = 0.02

ROWS = 96
GENERATOR = torch.Generator()


def _rows(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.randn(ROWS, 16, dtype=dtype), torch.randint(0, 4, (ROWS,))


def _net() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def _task(model: nn.Module | None = None, **more: Any) -> hasten.Task:
    settings: dict[str, Any] = {
        "data": _rows(),
        "loss": F.cross_entropy,
        "optimizer": _adam,
        "batch_size": 32,
    }
    return hasten.Task(model=model or _net(), **{**settings, **more})


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.first(rows)
        if float(hidden.detach().mean()) > 0:
            hidden = hidden.relu()
        return self.second(hidden)


def branches_on_data() -> hasten.Task:
    return _task(Branching())


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self) -> None:
        self.rows, self.targets = _rows()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.rows[index] + 0.1 * torch.randn(16), self.targets[index]


def augments_at_random() -> hasten.Task:
    return _task(data=DataLoader(Augmented(), batch_size=32, shuffle=True), batch_size=None)


def two_optimizers() -> hasten.Task:
    def make(parameters: Any) -> Sequence[torch.optim.Optimizer]:
        given = list(parameters)
        return [torch.optim.SGD(given[:2], lr=1e-2), torch.optim.AdamW(given[2:], lr=1e-3)]

    return _task(optimizer=make)


def normalizes_batches() -> hasten.Task:
    return _task(nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)))


def compares_rows() -> hasten.Task:
    def forward(model: nn.Module, batch: Any) -> Tensor:
        made = model(batch[0])
        return (torch.cdist(made, made) - torch.cdist(batch[0], batch[0])).square().mean()

    return _task(loss=None, forward=forward)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = _net(), 0

    def forward(self, rows: Tensor) -> Tensor:
        self.calls += 1
        made: Tensor = self.inner(rows) * (1 + 1e-3 * self.calls)
        return made


def counts_its_calls() -> hasten.Task:
    return _task(Counting())


class NotForCompilers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = _net()

    def forward(self, rows: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            raise RuntimeError("this model cannot be compiled")
        made: Tensor = self.inner(rows)
        return made


def crashes_when_compiled() -> hasten.Task:
    return _task(NotForCompilers())


def hangs() -> hasten.Task:
    def forward(model: nn.Module, batch: Any) -> Tensor:
        time.sleep(3600)
        return F.cross_entropy(model(batch[0]), batch[1])

    return _task(loss=None, forward=forward)


def runs_out_at_the_third_step() -> hasten.Task:
    calls = iter(range(10**9))

    def forward(model: nn.Module, batch: Any) -> Tensor:
        if next(calls) == 12:  # the first step is taken more than once, by who looks into it
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate all of it")
        return F.cross_entropy(model(batch[0]), batch[1])

    return _task(loss=None, forward=forward)


def never_the_same() -> hasten.Task:
    def forward(model: nn.Module, batch: Any) -> Tensor:
        noise = 1 + 1e-7 * torch.randn((), generator=GENERATOR)
        return F.cross_entropy(model(batch[0]), batch[1]) * noise

    return _task(loss=None, forward=forward)


def closes_over_its_step() -> hasten.Task:
    return _task(optimizer=lambda parameters: torch.optim.LBFGS(parameters))


def has_sparse_gradients() -> hasten.Task:
    model = nn.Sequential(nn.EmbeddingBag(50, 16, sparse=True), nn.Linear(16, 4))
    data = torch.randint(0, 50, (ROWS, 6)), torch.randint(0, 4, (ROWS,))
    return _task(model, data=data, optimizer=lambda each: torch.optim.SGD(each, lr=0.1))


def in_double_precision() -> hasten.Task:
    return _task(_net().double(), data=_rows(torch.float64))
