"""A training whose loader is slowed by a known amount, and its twin with the fast one."""

import os
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import hasten

ROWS, WIDTH, BATCH = 4096, 512, 128
VARIABLE = "HASTEN_BENCHMARK_SLOWED_MS"


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """Whole batches, already made: an item is one of them. Slowed by computing, not by sleeping."""

    def __init__(self, slowed_s: float) -> None:
        generator = torch.Generator().manual_seed(0)
        self._inputs = torch.randn(ROWS, WIDTH, generator=generator)
        self._targets = torch.randint(0, 10, (ROWS,), generator=generator)
        self._slowed_s = slowed_s

    def __len__(self) -> int:
        return ROWS // BATCH

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        end = time.perf_counter() + self._slowed_s
        while time.perf_counter() < end:
            pass
        rows = slice(number * BATCH, (number + 1) * BATCH)
        return self._inputs[rows], self._targets[rows]


def _task(slowed_s: float, workers: int) -> hasten.Task:
    torch.set_num_threads(1)  # a core each for the steps and for a worker, where there are two
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    data = DataLoader(
        Batches(slowed_s),
        batch_size=None,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    return hasten.Task(
        model=nn.Sequential(*layers, nn.Linear(WIDTH, 10)),
        data=data,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    )


def _slowed_s() -> float:
    return float(os.environ[VARIABLE]) / 1e3


def slowed() -> hasten.Task:
    return _task(_slowed_s(), workers=0)


def slowed_with_workers() -> hasten.Task:
    return _task(_slowed_s(), workers=2)


def fast() -> hasten.Task:
    return _task(0.0, workers=0)
