"""A fixed piece of training of ours, that a task's speed is told in.

Seconds of one day say nothing about another day on a machine that others use too. How often the
task fits into this one, both in turns, says much more. Whoever changes anything here that changes
its time gives it another number, so that older figures are refused and not compared.
"""

import torch
from torch import nn

from hasten.records.saved_bench import REFERENCE
from hasten.task.task import Task, training_device

INPUTS, OUTPUTS = 512, 64
BATCHES = 16


def make_task() -> Task:
    """Rows collated in Python, matrix products, an optimizer over many weights: a bit of each of
    what trainings are made of, and enough of it to fill the device."""
    assert REFERENCE == 1  # the one that is written here
    width, rows = (512, 64) if training_device().type == "cpu" else (8192, 256)
    data = torch.randn(BATCHES * rows, INPUTS), torch.randint(0, OUTPUTS, (BATCHES * rows,))
    layers = (nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return Task(
        model=nn.Sequential(*layers, nn.Linear(width, OUTPUTS)),
        data=data,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=rows,
    )
