"""What all arms share: the task with its first weights, the batch size, the clip, the optimizer."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW
from torch.utils.data import DataLoader

from hasten.gallery.transformer import Block
from hasten.task.load import build_task, load_factory
from hasten.task.task import Task

CLIP_NORM = 0.5
LEARNING_RATE = 1e-4
PLAIN_WORKERS = 2
MANY_WORKERS = 8
PREFETCH = 2
"""Batches per worker; torch's own default, said here as they are counted."""


class NotInstalledError(Exception):
    """A package that an arm is about is absent here: a row of the results, not a fault."""


class NotPossibleError(Exception):
    """An arm that this device cannot run."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a process is to train, and how; crosses to it as JSON."""

    arm: str
    workload: str
    size: str
    seed: int
    plan: dict[str, Any] | None
    """Instead of the written one, for the arm of Hasten."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Arm(Protocol):
    rows: int
    """Of a batch."""
    prefetched: int
    """Batches that loader workers may hold ready: a block must not count them as its own."""

    def step(self) -> Tensor:
        """Fetch a batch and train on it. The loss may lie in memory that the next step reuses."""

    def notes(self) -> dict[str, Any]:
        """What a reader of the results should know."""


def choose_device(kind: str) -> None:
    """For this process and those that it starts; before anything has touched a device."""
    if kind == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif not on_cuda():
        raise SystemExit("There is no CUDA device here. Use --device cpu.")


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def on_cuda() -> bool:
    return torch.cuda.is_available()


def make_task(setting: Setting) -> Task:
    name = f"gallery:{setting.workload}@{setting.size}"
    return build_task(load_factory(name), name, setting.seed)


def as_given(task: Task) -> Task:
    """As the naive loop trains it: its loader with two workers, its optimizer, its clip."""
    return replace(
        task,
        data=make_loader(task, PLAIN_WORKERS, persistent=False),
        optimizer=make_optimizer,
        clip_norm=CLIP_NORM,
    )


def loss_of(task: Task) -> Callable[[Tensor, Tensor], Tensor]:
    """Of output and target. The task with a state has its loss, a squared error, in ``forward``."""
    return F.mse_loss if task.initial_state is not None else task.loss


def make_loader(task: Task, workers: int, *, persistent: bool) -> DataLoader[Any]:
    assert not isinstance(task.data, DataLoader)  # the gallery gives datasets
    return DataLoader(
        task.data,  # type: ignore[arg-type]
        batch_size=task.batch_size,
        shuffle=True,
        num_workers=workers,
        prefetch_factor=PREFETCH,
        pin_memory=on_cuda(),
        drop_last=True,
        persistent_workers=persistent,
    )


def make_optimizer(parameters: Iterable[nn.Parameter], **options: Any) -> AdamW:
    return AdamW(parameters, lr=LEARNING_RATE, **options)


def endless(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def use_attention_by_hand(model: nn.Module) -> None:
    """As somebody writes it who follows the formula; the weights stay as they are."""
    for module in model.modules():
        if isinstance(module, Block):
            module.fused = False
