"""The contract between a user's training and Hasten.

A task is made by the user's own function. Hasten seeds the random generators and calls that
function, many times and in other processes: with the same seed it must give the same task.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from hasten.errors import HastenError

Batch = Any
"""A pytree of tensors: a tensor, or tuples, lists and dicts of them."""
TrainingData = Dataset[Any] | DataLoader[Any] | Sequence[Tensor]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of merit of the trained model: ``compute(outputs, targets)`` over all rows."""

    compute: Callable[[Tensor, Tensor], Tensor]
    """Gives one number, as a tensor."""
    higher_is_better: bool
    """Which of two models is the better one by it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to train. Give ``loss``, or ``forward`` where a batch is not an (input, target) pair."""

    model: nn.Module
    """The model, built; Hasten moves it to the device."""
    data: TrainingData
    """A Dataset, a DataLoader (its own batch size and order are kept), or a tuple of tensors."""
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer | Sequence[Optimizer]]
    """Makes the optimizer, or several, of the model's parameters."""
    loss: Callable[[Any, Any], Tensor] | None = None
    """``loss(output, target)``, a scalar."""
    forward: Callable[..., Any] | None = None
    """``forward(model, batch)``, the scalar loss; with ``initial_state``,
    ``forward(model, batch, state)``, the pair of loss and next state."""
    batch_size: int | None = None
    """Rows per optimizer step; left out where ``data`` is a DataLoader."""
    shuffle: bool = True
    """Whether each epoch has an order of its own; a DataLoader keeps its own order."""
    evaluation_data: TrainingData | None = None
    """What the model is judged by, never trained on."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """By name; each is computed over all of ``evaluation_data``."""
    count: Callable[[Batch], int] | None = None
    """By what parts of a batch are weighted: rows unless given, tokens for a token loss."""
    clip_norm: float | None = None
    """The largest norm of all gradients together; None does not clip."""
    scheduler: Callable[[Optimizer], LRScheduler] | None = None
    """Makes the schedule of an optimizer's learning rate."""
    scheduler_unit: Literal["step", "epoch"] = "step"
    """What the scheduler counts."""
    initial_state: Callable[..., Any] | None = None
    """State of a recurrent model. ``initial_state()`` begins each epoch and is carried from batch
    to batch, gradients cut between; where ``state_resets`` is "batch", ``initial_state(batch)``
    begins each batch. It is moved to the device."""
    state_resets: Literal["epoch", "batch"] = "epoch"
    """When the state begins anew."""
    couples_batch: bool | None = None
    """Whether the loss compares rows of a batch, so that it cannot be split. None: probe."""
    batch_multiple_of: int = 1
    """A batch is only ever split into pieces of a multiple of this, such as 2 for pairs."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise HastenError(
                f"Task.model is a {type(self.model).__name__}, not a torch.nn.Module.",
                fix="Pass the model object, built.",
            )
        if (self.loss is None) == (self.forward is None):
            given = "neither" if self.loss is None else "both"
            raise HastenError(
                f"Task needs loss or forward, one of the two, and {given} is given.",
                fix="Give loss(output, target), or forward(model, batch) that returns the loss.",
            )
        if self.initial_state is not None and self.forward is None:
            raise HastenError(
                "Task.initial_state is given without forward.",
                fix="Give forward(model, batch, state) that returns the loss and the next state.",
            )
        if isinstance(self.data, DataLoader):
            if self.batch_size not in (None, self.data.batch_size):
                raise HastenError(
                    f"batch_size={self.batch_size} is not the DataLoader's {self.data.batch_size}.",
                    fix="Leave Task.batch_size out; the DataLoader's is used.",
                )
        elif self.batch_size is None or self.batch_size < 1:
            raise HastenError(
                f"Task.batch_size={self.batch_size} gives no batches.",
                fix="Set it to the rows of one optimizer step, 1 or more.",
            )
        if isinstance(self.data, IterableDataset) and self.shuffle:
            raise HastenError(
                f"Task.shuffle=True, and the stream {type(self.data).__name__} has its own order.",
                fix="Set shuffle=False.",
            )
        if self.scheduler_unit not in ("step", "epoch"):
            raise HastenError(
                f"Task.scheduler_unit={self.scheduler_unit!r} is not a unit.",
                fix="Use 'step' or 'epoch'.",
            )
        if self.state_resets not in ("epoch", "batch"):
            raise HastenError(
                f"Task.state_resets={self.state_resets!r} is not a unit.",
                fix="Use 'epoch' or 'batch'.",
            )
        if "loss" in self.metrics:
            raise HastenError(
                "Task.metrics has one named 'loss', which an evaluation gives by itself.",
                fix="Name it otherwise.",
            )
        if self.batch_multiple_of < 1:
            raise HastenError(
                f"Task.batch_multiple_of={self.batch_multiple_of} is not possible.",
                fix="Use 1, or 2 for a loss over pairs.",
            )

    def make_loader(self) -> DataLoader[Any]:
        """The loader of the naive arm: the user's own, or the plain one that torch would make."""
        if isinstance(self.data, DataLoader):
            return self.data
        return DataLoader(as_dataset(self.data), batch_size=self.batch_size, shuffle=self.shuffle)

    def compute_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of one batch, for a task that carries no state."""
        if self.forward is not None:
            loss: Tensor = self.forward(model, batch)
            return loss
        assert self.loss is not None  # held by __post_init__
        return loss_of_pair(self.loss, model, batch)


def as_dataset(data: Dataset[Any] | Sequence[Tensor]) -> Dataset[Any]:
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Sequence) and data and all(isinstance(t, Tensor) for t in data):
        if len({t.shape[:1] for t in data}) != 1 or not data[0].dim():
            raise HastenError(
                f"Task.data has tensors of shapes {', '.join(str(tuple(t.shape)) for t in data)}.",
                fix="Pass tensors with equal first dimension, one row of each for a sample.",
            )
        return TensorDataset(*data)
    raise HastenError(
        f"Task.data is a {type(data).__name__}, which is not training data.",
        fix="Pass a Dataset, a DataLoader, or a tuple of tensors with equal first dimension.",
    )


def loss_of_pair(loss: Callable[[Any, Any], Tensor], model: nn.Module, batch: Batch) -> Tensor:
    shape = not_a_pair(batch)
    if shape:
        raise HastenError(
            f"loss(output, target) needs batches of (input, target), and this one is {shape}.",
            fix="Give the task forward(model, batch) that returns the loss.",
        )
    inputs, target = batch
    return loss(model(inputs), target)


def not_a_pair(batch: Batch) -> str | None:
    """What a batch is instead of (input, target); None where it is such a pair."""
    if not isinstance(batch, tuple | list):
        return f"a {type(batch).__name__}"
    return None if len(batch) == 2 else f"a {type(batch).__name__} of {len(batch)}"


def training_device() -> torch.device:
    """Where a task trains: the accelerator where there is one, else the CPU."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
