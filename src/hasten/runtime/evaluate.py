"""The task's own metrics, over its evaluation data."""

import torch
from torch.utils.data import DataLoader

from hasten.errors import HastenError
from hasten.task import batch as batches
from hasten.task.task import Task, as_dataset, training_device


@torch.no_grad()
def evaluate(task: Task) -> dict[str, float]:
    """Each metric of ``task.metrics``, of the model as it is, in evaluation mode."""
    if task.evaluation_data is None or not task.metrics:
        raise HastenError(
            "The task has no evaluation data or no metrics.",
            fix="Give Task evaluation_data and metrics.",
        )
    outputs, targets = [], []
    device = training_device()
    model = task.model.to(device)
    was_training = model.training
    model.eval()
    try:
        for batch in _loader(task):
            inputs, target = batches.move(batch, device)
            outputs.append(model(inputs))
            targets.append(target)
    finally:
        model.train(was_training)
    output, target = torch.cat(outputs), torch.cat(targets)
    return {name: float(each.compute(output, target)) for name, each in task.metrics.items()}


def _loader(task: Task) -> DataLoader[object]:
    data = task.evaluation_data
    assert data is not None  # evaluate has asked
    if isinstance(data, DataLoader):
        return data
    return DataLoader(as_dataset(data), batch_size=task.batch_size or task.make_loader().batch_size)
