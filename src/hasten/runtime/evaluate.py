"""The task's own metrics, over its evaluation data."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from hasten.errors import HastenError
from hasten.task import batch as batches
from hasten.task.seed import random_state, restore_random_state
from hasten.task.task import Task, as_dataset, not_a_pair, training_device

ROWS = 64
"""Of a batch, where nothing says how many; in evaluation mode it changes no metric."""


@torch.no_grad()
def evaluate(task: Task) -> dict[str, float]:
    """Each metric of ``task.metrics``, of the model as it is, in evaluation mode.

    A training may go on afterwards as if nothing had happened: modes and random generators are
    put back.
    """
    if task.evaluation_data is None or not task.metrics:
        raise HastenError(
            "The task has no evaluation data or no metrics.",
            fix="Give Task evaluation_data and metrics.",
        )
    model = task.model.to(training_device())
    modes = {module: module.training for module in model.modules()}
    state = random_state()
    model.eval()
    try:
        output, target = _predict(task, model)
        return {name: float(each.compute(output, target)) for name, each in task.metrics.items()}
    finally:
        for module, training in modes.items():
            module.training = training
        restore_random_state(state)


def _predict(task: Task, model: nn.Module) -> tuple[Tensor, Tensor]:
    outputs, targets = [], []
    for batch in _loader(task):
        shape = not_a_pair(batch)
        if shape:
            raise HastenError(
                f"A metric needs batches of (input, target), and this one is {shape}.",
                fix="Give Task.evaluation_data of inputs and targets.",
            )
        inputs, target = batches.move(batch, training_device())
        outputs.append(model(inputs))
        targets.append(target)
    return torch.cat(outputs), torch.cat(targets)


def _loader(task: Task) -> DataLoader[object]:
    data = task.evaluation_data
    assert data is not None  # evaluate has asked
    if isinstance(data, DataLoader):
        return data
    # A loader of the user's own may make its batches without a size.
    size = task.batch_size or task.make_loader().batch_size or ROWS
    return DataLoader(as_dataset(data), batch_size=size)
