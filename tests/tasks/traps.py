"""Trainings that a careless tuner would break, each in its own way.

Measuring is cut short in the processes that load this file: how fast they are is of no matter.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import brisk  # noqa: F401  # nothing here hangs on timing
import pretended_time
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import hasten

ROWS = 96


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
    """Most of a step is spent on augmenting."""

    def __init__(self) -> None:
        self.rows, self.targets = _rows()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pretended_time.sleep(0.0005)
        return self.rows[index] + 0.1 * torch.randn(16), self.targets[index]


def augments_at_random() -> hasten.Task:
    """Its optimizer is fused, so that keeping the data is all that could be gained."""
    pretended_time.pretend()
    return _task(
        data=DataLoader(Augmented(), batch_size=8, shuffle=True),
        batch_size=None,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
    )


class LoaderPart(hasten.Part, frozen=True):
    pass


def _register_loader(name: str, batches_of: Callable[[list[Any], DataLoader[Any]], Any]) -> None:
    """A technique that keeps the first epoch's batches, and gives ``batches_of`` them later."""

    class Keeping(hasten.Technique[LoaderPart]):
        part = LoaderPart
        stage = hasten.Stage.DATA
        rung = hasten.Rung.BITWISE
        answers = ("data-wait",)
        about = "Planted by a test."

        def unsuited(self, traits: Any) -> str | None:
            return None if traits.data.draws_random else "nothing is random"

        def to_try(self, environment: Any, traits: Any) -> list[LoaderPart]:
            return [LoaderPart()]

        def apply(self, pipeline: hasten.Pipeline, part: LoaderPart) -> hasten.Effect:
            before: Any = pipeline.loader
            pipeline.loader = Kept(before, batches_of)

            def undo() -> None:
                pipeline.loader = before

            return hasten.Effect(why="planted", undo=undo)

    Keeping.name = name
    hasten.register_technique(Keeping)


class Kept:
    def __init__(self, loader: DataLoader[Any], batches_of: Callable[..., Any]) -> None:
        self.loader, self.batches_of, self.kept = loader, batches_of, list[Any]()

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Any:
        if not self.kept:
            self.kept = list(self.loader)
            return iter(self.kept)
        return iter(self.batches_of(self.kept, self.loader))


def _as_they_were(kept: list[Any], loader: DataLoader[Any]) -> Any:
    """Nor is anything drawn from the generators."""
    return kept


def _in_a_new_order(kept: list[Any], loader: DataLoader[Any]) -> Any:
    """Rows in the loader's own order of this epoch; augmented as they were in the first one."""
    rows = [torch.cat(column) for column in zip(*kept, strict=True)]
    return [[column[indices] for column in rows] for indices in loader.batch_sampler or ()]


_register_loader("freezes", _as_they_were)
_register_loader("freezes_and_shuffles", _in_a_new_order)


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


@torch.library.custom_op("hasten_traps::double", mutates_args=())
def double(values: Tensor) -> Tensor:
    """It has no meaning for a compiler: tracing it fails, running it does not."""
    return values * 2


double.register_autograd(lambda context, gradient: gradient * 2)


class NotForCompilers(nn.Module):
    """Of many small operations, which a compiler is asked to join."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = _net()

    def forward(self, rows: Tensor) -> Tensor:
        for _ in range(200):
            rows = rows.sin()
        made: Tensor = double(self.inner(rows))
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


def closes_over_its_step() -> hasten.Task:
    return _task(optimizer=lambda parameters: torch.optim.LBFGS(parameters))


def has_sparse_gradients() -> hasten.Task:
    model = nn.Sequential(nn.EmbeddingBag(50, 16, sparse=True), nn.Linear(16, 4))
    data = torch.randint(0, 50, (ROWS, 6)), torch.randint(0, 4, (ROWS,))
    return _task(model, data=data, optimizer=lambda each: torch.optim.SGD(each, lr=0.1))


def in_double_precision() -> hasten.Task:
    return _task(_net().double(), data=_rows(torch.float64))
