"""A fixed piece of training of ours, that a task's speed is told in.

Seconds of one day say nothing about another day on a machine that others use too. How often the
task fits into this one, both in turns, says much more. Whoever changes anything here that changes
its time gives it another number, so that older figures are refused and not compared.
"""

import torch
from torch import nn

from hasten.records.saved_bench import REFERENCE
from hasten.task.task import Task, training_device

OUTPUTS = 64
BATCHES = 4


def make_task() -> Task:
    """Much arithmetic for each byte: steps with small batches and a large optimizer state, tried
    before, were noisier beside every task (benchmarks/references.py)."""
    assert REFERENCE == 2  # the one that is written here
    on_cpu = training_device().type == "cpu"
    inputs, width, rows = (256, 256, 512) if on_cpu else (512, 8192, 256)
    data = torch.randn(BATCHES * rows, inputs), torch.randint(0, OUTPUTS, (BATCHES * rows,))
    layers = (nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return Task(
        model=nn.Sequential(*layers, nn.Linear(width, OUTPUTS)),
        data=data,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        batch_size=rows,
    )
