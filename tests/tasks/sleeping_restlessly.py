"""The training that sleeps, and differs from itself by less than rounding may cause."""

from typing import Any

import torch
from sleeping import register, task
from torch import Tensor, nn

import hasten

GENERATOR = torch.Generator()
GENERATOR.seed()  # another one in each process, whatever it was seeded with


def never_repeats() -> hasten.Task:
    def forward(model: nn.Module, batch: Any) -> Tensor:
        noise = 1 + 1e-6 * torch.randn((), generator=GENERATOR)
        return nn.functional.cross_entropy(model(batch[0]), batch[1]) * noise

    return task(forward)


register("wakes_and_rounds", rung=hasten.Rung.ROUNDING)
