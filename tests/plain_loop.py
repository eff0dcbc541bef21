"""A small training and the loop that anybody would write for it by hand, without Hasten."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, TensorDataset

from hasten.task.task import Task, training_device

ROWS, FEATURES, CLASSES = 50, 6, 3


def make_model() -> nn.Module:
    """With dropout and BatchNorm: what differs if a random number or a batch is out of place."""
    return nn.Sequential(
        nn.Linear(FEATURES, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(16, CLASSES),
    )


def make_dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(4)
    inputs = torch.randn(ROWS, FEATURES, generator=generator)
    return TensorDataset(inputs, torch.randint(CLASSES, (ROWS,), generator=generator))


def make_loader(**options: Any) -> DataLoader[Any]:
    """50 rows in batches of 8: the last batch of an epoch is a partial one."""
    return DataLoader(make_dataset(), **{"batch_size": 8, "shuffle": True, **options})


def train_plainly(
    model: nn.Module,
    loader: Iterable[Any],
    optimizer: Optimizer,
    *,
    epochs: int,
    loss_fn: Callable[[Any, Any], Tensor] = F.cross_entropy,
    clip_norm: float | None = None,
    each_step: LRScheduler | None = None,
    each_epoch: LRScheduler | None = None,
) -> list[float]:
    """The losses of every step."""
    losses = []
    for _ in range(epochs):
        for inputs, target in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), target)
            loss.backward()
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            if each_step is not None:
                each_step.step()
            losses.append(loss.item())
        if each_epoch is not None:
            each_epoch.step()
    return losses


def train_task_plainly(task: Task, steps: int) -> list[float]:
    """The losses of the first steps, within an epoch, of a task with a loss and one optimizer."""
    device = training_device()
    model = task.model.to(device)
    optimizer = task.optimizer(model.parameters())
    assert isinstance(optimizer, Optimizer)
    losses = []
    for _, batch in zip(range(steps), task.make_loader(), strict=False):
        optimizer.zero_grad()
        loss = task.compute_loss(model, [tensor.to(device) for tensor in batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
