"""Trainings whose batch may be larger, to their gain or to their loss."""

import dataclasses

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from hasten.task.task import Metric, Task


def tiny_steps(rows: int = 8192, batch: int = 4, rate: float = 2e-3) -> Task:
    """Of four rows, which take as long as sixty. At this rate the weights move so little in a step
    that sixteen steps are one of sixteen times the rate."""
    data = torch.randn(rows, 8)
    truth = torch.randn(8, 1)
    targets = data @ truth + 0.01 * torch.randn(rows, 1)
    return Task(
        model=nn.Linear(8, 1),
        data=(data, targets),
        loss=F.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=rate),
        batch_size=batch,
        evaluation_data=(data[:64], targets[:64]),
    )


def steps_that_count() -> Task:
    """All rows are alike, so that a step of more rows is the same step; and the rate is as high as
    it can be, so that any higher one diverges."""
    data = torch.ones(4096, 1).repeat(1, 4) * torch.tensor([1.0, 0.3, 0.2, 0.1])
    return Task(
        model=Bowl(),
        data=(data, torch.zeros(4096, 1)),
        loss=_first,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.9),
        batch_size=4,
    )


class Bowl(nn.Module):
    """Its loss falls for long: a quadratic with curvatures from 1 to 1e-4."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("curvature", torch.tensor([1.0, 1e-2, 1e-3, 1e-4]))

    def forward(self, rows: Tensor) -> Tensor:
        return 0.5 * (self.curvature * self.weight**2).sum() + 0 * rows.sum(1, keepdim=True)


def _first(output: Tensor, target: Tensor) -> Tensor:
    return output.mean() + 0 * target.mean()


class OneRate(torch.optim.SGD):
    """Whatever its groups say."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        groups = [(group, group["lr"]) for group in self.param_groups]
        for group, _ in groups:
            group["lr"] = 2e-3
        super().step()
        for group, rate in groups:
            group["lr"] = rate


def tiny_steps_at_one_rate() -> Task:
    task = tiny_steps()
    return dataclasses.replace(task, optimizer=lambda parameters: OneRate(parameters, lr=2e-3))


def breaks_with_many_rows() -> Task:
    """As one that runs out of memory."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        if len(output) > 8:
            raise RuntimeError("so many rows are too many")
        return F.mse_loss(output, target)

    return dataclasses.replace(tiny_steps(), loss=loss, evaluation_data=None)


def learns_nothing() -> Task:
    """There is no target to reach."""
    return tiny_steps(rate=0.0)


def few_rows() -> Task:
    return tiny_steps(rows=12, batch=8)


def made_by_a_sampler() -> Task:
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    batches = BatchSampler(RandomSampler(data), 4, drop_last=False)
    return Task(
        model=nn.Linear(8, 1),
        data=DataLoader(data, batch_sampler=batches),
        loss=F.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    )


def with_a_schedule() -> Task:
    return Task(
        model=nn.Linear(8, 1),
        data=(torch.randn(64, 8), torch.randn(64, 1)),
        loss=F.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        batch_size=4,
        scheduler=lambda optimizer: StepLR(optimizer, 10),
    )


def compares_rows() -> Task:
    return Task(
        model=nn.Linear(8, 4),
        data=(torch.randn(64, 8), torch.randn(64, 1)),
        loss=lambda output, target: torch.cdist(output, output).mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        batch_size=8,
        metrics={"nothing": Metric(compute=lambda o, t: o.mean(), higher_is_better=True)},
    )
