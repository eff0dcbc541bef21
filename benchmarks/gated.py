"""One block of work, many times over, with the same weights: a block more is a known slowdown.

Of 20 blocks two more are a tenth, which against.py plants; of 33 one more is 3 %, which
false_alarms.py looks for. Loader and optimizer are next to nothing beside them.
"""

import torch
from torch import Tensor, nn

import hasten

BLOCKS = 20
WIDTH, ROWS = 256, 64


class Repeated(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, rows: Tensor) -> Tensor:
        for _ in range(self.blocks):
            rows = rows + torch.tanh(self.layer(rows)) / self.blocks
        return rows


def make_task() -> hasten.Task:
    return _of(BLOCKS)


def of_33() -> hasten.Task:
    return _of(33)


def of_34() -> hasten.Task:
    return _of(34)


def _of(blocks: int) -> hasten.Task:
    return hasten.Task(
        model=Repeated(blocks),
        data=(torch.randn(16 * ROWS, WIDTH), torch.randn(16 * ROWS, WIDTH)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        batch_size=ROWS,
    )
