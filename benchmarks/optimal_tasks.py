"""Twenty small trainings that leave nothing to gain on a CPU of a few cores.

All read whole batches from tensors, update in one fused kernel where torch has one, lay images out
channels-last, and spend their time in matrix products, convolutions and torch's own recurrent
layers. Where a compiler would join what lies between the products, the model is compiled; a single
layer, and layers with dropout, are faster without.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import hasten

BATCHES = 8
Make = Callable[[Iterable[nn.Parameter]], Optimizer | Sequence[Optimizer]]


def by_batch(*tensors: Tensor, rows: int) -> DataLoader[Any]:
    """A loader that asks its tensors for a whole batch, in a new order in each epoch."""
    data = TensorDataset(*tensors)
    return DataLoader(data, sampler=BatchSampler(RandomSampler(data), rows, False), batch_size=None)


def fused(kind: type[Optimizer], **settings: Any) -> Make:
    return lambda parameters: kind(parameters, lr=1e-3, fused=True, **settings)  # type: ignore[call-arg]


def classes(rows: int, many: int = 10) -> Tensor:
    return torch.randint(0, many, (BATCHES * rows,))


def vectors(rows: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(BATCHES * rows, *shape, dtype=dtype)


def mlp(*widths: int, between: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), between()]
    return nn.Sequential(*layers[:-1])


def relu_and_dropout() -> nn.Module:
    """Compiled, it is slower on a CPU: drawing the masks is."""
    return nn.Sequential(nn.ReLU(), nn.Dropout(0.3))


def task(
    model: nn.Module,
    *tensors: Tensor,
    rows: int,
    loss: Callable[[Any, Any], Tensor] = F.cross_entropy,
    optimizer: Make | None = None,
    **more: Any,
) -> hasten.Task:
    given = {"forward": more.pop("forward")} if "forward" in more else {"loss": loss}
    data = by_batch(*tensors, rows=rows)
    return hasten.Task(model=model, data=data, optimizer=optimizer or fused(SGD), **given, **more)


class Compiled(nn.Module):
    """Compiled in place, which torch does for classes that are not its own only."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)
        self.compile(dynamic=False)

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.inner(rows)
        return made


class ChannelsLast(nn.Module):
    """Images of (rows, height, width, channels) through layers that are laid out likewise."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner).to(memory_format=torch.channels_last)

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.inner(rows.permute(0, 3, 1, 2))
        return made


class Attending(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        split = self.before(rows).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        made = F.scaled_dot_product_attention(*split.unbind(2))
        return rows + self.behind(made.transpose(1, 2).flatten(2))


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.layer(rows)[0][:, -1]
        return made


class Fetched(Dataset[Any]):
    """Tensors by themselves, of which a DataLoader asks all rows of a batch at once."""

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(each[index] for each in self.tensors)

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        return [each[indices] for each in self.tensors]


# Dense layers.


def linear_regression() -> hasten.Task:
    data = vectors(256, 1024), vectors(256, 1024)
    return task(nn.Linear(1024, 1024), *data, rows=256, loss=F.mse_loss)


def wide() -> hasten.Task:
    model = Compiled(mlp(512, 1024, 1024, 10))
    return task(model, vectors(256, 512), classes(256), rows=256)


def deep_with_momentum() -> hasten.Task:
    model = Compiled(mlp(256, *12 * [256], 10))
    optimizer = fused(SGD, momentum=0.9)
    return task(model, vectors(512, 256), classes(512), rows=512, optimizer=optimizer)


def dropping() -> hasten.Task:
    model = mlp(512, 512, 512, 10, between=relu_and_dropout)
    return task(model, vectors(256, 512), classes(256), rows=256, optimizer=fused(Adam))


def dropping_and_clipped() -> hasten.Task:
    model = mlp(256, 1024, 256, between=lambda: nn.Sequential(nn.Tanh(), nn.Dropout(0.1)))
    data = vectors(256, 256), classes(256, 256)
    return task(model, *data, rows=256, optimizer=fused(AdamW), clip_norm=1.0)


def double_precision() -> hasten.Task:
    model = Compiled(mlp(256, 512, 512, 1, between=nn.Tanh).double())
    data = vectors(256, 256, dtype=torch.float64), vectors(256, 1, dtype=torch.float64)
    return task(model, *data, rows=256, loss=F.mse_loss, optimizer=fused(Adam))


def denoising_autoencoder() -> hasten.Task:
    model = nn.Sequential(nn.Dropout(0.2), mlp(784, 512, 64, 512, 784))

    def forward(model: nn.Module, batch: Any) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[0])

    optimizer = fused(AdamW, weight_decay=0.0)
    return task(model, vectors(256, 784), rows=256, forward=forward, optimizer=optimizer)


def two_optimizers() -> hasten.Task:
    model = mlp(512, 1024, 512, 16, between=relu_and_dropout)

    def optimizers(parameters: Iterable[nn.Parameter]) -> Sequence[Optimizer]:
        given = list(parameters)
        return [SGD(given[:2], lr=1e-2, fused=True), AdamW(given[2:], lr=1e-3, fused=True)]

    return task(model, vectors(256, 512), classes(256), rows=256, optimizer=optimizers)


def comparing_rows() -> hasten.Task:
    """Of a loss that compares all rows of a batch."""
    model = Compiled(mlp(512, 1024, 512))

    def forward(model: nn.Module, batch: Any) -> Tensor:
        made = model(batch[0])
        return F.mse_loss(made @ made.T, batch[0] @ batch[0].T)

    return task(model, vectors(256, 512), rows=256, forward=forward)


def scheduled_without_a_fused_kernel() -> hasten.Task:
    return task(
        Compiled(mlp(1024, 512, 512, 10)),
        vectors(512, 1024),
        classes(512),
        rows=512,
        optimizer=lambda parameters: torch.optim.RMSprop(parameters, lr=1e-4),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 100),
    )


def fetched_by_its_dataset() -> hasten.Task:
    data = Fetched(vectors(128, 1024), classes(128))
    loader = DataLoader(data, batch_size=128, shuffle=True, collate_fn=list)
    model = Compiled(mlp(1024, 256, 256, 10))
    return hasten.Task(model=model, data=loader, loss=F.cross_entropy, optimizer=fused(SGD))


# Convolutions.


def images() -> hasten.Task:
    layers = (
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    model = Compiled(ChannelsLast(*layers, nn.Linear(64, 10)))
    return task(model, vectors(32, 16, 16, 16), classes(32), rows=32)


def normalized_images() -> hasten.Task:
    layers = (
        *(nn.Conv2d(8, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten()),
    )
    model = Compiled(ChannelsLast(*layers, nn.Linear(64 * 36, 10)))
    data = vectors(32, 12, 12, 8), classes(32)
    return task(model, *data, rows=32, optimizer=fused(SGD, momentum=0.9, nesterov=True))


def signals() -> hasten.Task:
    layers = (
        *(nn.Conv1d(16, 64, 9, padding=4), nn.ReLU(), nn.Conv1d(64, 64, 9, 2, 4), nn.ReLU()),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    data = vectors(32, 16, 128), classes(32)
    return task(Compiled(*layers), *data, rows=32, optimizer=fused(Adagrad))


# Sequences.


def lstm() -> hasten.Task:
    model = Last(nn.LSTM(32, 128, proj_size=10, batch_first=True))
    return task(model, vectors(64, 24, 32), classes(64), rows=64, optimizer=fused(Adam))


def gru() -> hasten.Task:
    model = Last(nn.GRU(32, 96, num_layers=2, batch_first=True))
    data = vectors(64, 16, 32), vectors(64, 96)
    return task(model, *data, rows=64, loss=F.mse_loss, optimizer=fused(AdamW))


def clipped_rnn() -> hasten.Task:
    model = Last(nn.RNN(64, 256, batch_first=True))
    data = vectors(64, 24, 64), classes(64, 256)
    return task(model, *data, rows=64, clip_norm=0.5)


def two_ways() -> hasten.Task:
    model = Last(nn.GRU(32, 64, bidirectional=True, batch_first=True))
    data = vectors(64, 20, 32), classes(64, 128)
    return task(model, *data, rows=64, optimizer=fused(SGD, momentum=0.9))


def attention() -> hasten.Task:
    layers = (Attending(256, 4), nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))
    data = vectors(8, 32, 256), vectors(8, 32, 256)
    return task(Compiled(*layers), *data, rows=8, loss=F.mse_loss, optimizer=fused(AdamW))


def embeddings() -> hasten.Task:
    layers = mlp(256, 1024, 1024, 20, between=relu_and_dropout)
    model = nn.Sequential(nn.EmbeddingBag(1000, 256), layers)
    words = torch.randint(0, 1000, (BATCHES * 256, 12))
    return task(model, words, classes(256, 20), rows=256)


TASKS: tuple[Callable[[], hasten.Task], ...] = (
    linear_regression,
    wide,
    deep_with_momentum,
    dropping,
    dropping_and_clipped,
    double_precision,
    denoising_autoencoder,
    two_optimizers,
    comparing_rows,
    scheduled_without_a_fused_kernel,
    fetched_by_its_dataset,
    images,
    normalized_images,
    signals,
    lstm,
    gru,
    clipped_rnn,
    two_ways,
    attention,
    embeddings,
)
