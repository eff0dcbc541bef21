"""A training that bf16 makes faster on a device, and ruins; and that its loader holds up."""

import torch
from torch import Tensor, nn

import hasten
import hasten.measure.ceilings
import hasten.measure.phases
import hasten.measure.replay

hasten.measure.replay.USUAL_S = 0.5
hasten.measure.phases.ENOUGH_S = 1.0
hasten.measure.ceilings.EACH_S = 0.02

GROUP = 16
"""So few that the mean of a group is rounded far enough for a variance below zero in bf16."""
BATCH, LENGTH, WIDTH, HIDDEN = 2048, 8, 64, 2048
"""Rows that take a loader milliseconds one by one, and activations that take a device as long to
read and write: half the bits are half the time."""


class Cancelling(nn.Module):
    """Variance as the mean of squares less the square of the mean: fp32 bears it, bf16 does not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, 4)
        nn.init.constant_(self.first.bias, 30.0)

    def forward(self, rows: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            raise RuntimeError("this model is not for compilers")  # which would take a minute
        hidden = self.first(rows).unflatten(-1, (-1, GROUP))
        for _ in range(4):
            mean = hidden.mean(-1, keepdim=True)
            variance = (hidden * hidden).mean(-1, keepdim=True) - mean * mean
            hidden = hidden + 0.01 * (hidden - mean) / (variance + 1e-3).sqrt()
        centred = (hidden - hidden.mean(-1, keepdim=True)).flatten(-2)
        made: Tensor = self.last(centred).mean(1)
        return made


def cancels() -> hasten.Task:
    rows = torch.randn(8 * BATCH, LENGTH, WIDTH)
    return hasten.Task(
        model=Cancelling(),
        data=(rows, rows.mean(1)[:, :4].argmax(1)),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=BATCH,
    )
