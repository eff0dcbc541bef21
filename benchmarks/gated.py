"""The task that against.py gates: one block of work, many times over, with the same weights.

Two blocks more are a tenth more work. Loader and optimizer are next to nothing beside them, so that
nearly all of that tenth is in the step.
"""

import torch
from torch import Tensor, nn

import hasten

BLOCKS = 20
WIDTH, ROWS = 256, 64


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, rows: Tensor) -> Tensor:
        for _ in range(BLOCKS):
            rows = rows + torch.tanh(self.layer(rows)) / BLOCKS
        return rows


def make_task() -> hasten.Task:
    return hasten.Task(
        model=Repeated(),
        data=(torch.randn(16 * ROWS, WIDTH), torch.randn(16 * ROWS, WIDTH)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        batch_size=ROWS,
    )
