import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.loaders.resident import ResidentLoader
from hasten.measure.digests import digest_data
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task


def digested(*, resident: bool, workers: int = 0) -> object:
    seed_everything(0)
    data = TensorDataset(torch.randn(50, 4), torch.randn(50, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=workers)
    task = Task(model=nn.Linear(4, 1), data=loader, loss=F.mse_loss, optimizer=SGD)
    pipeline = Pipeline.from_task(task)
    if resident:
        pipeline.loader = ResidentLoader(loader, torch.device("cpu"))
    seed_everything(1)
    return digest_data(Run(pipeline), epochs=2, limit_s=60.0)


def test_rows_that_a_step_gathers_for_itself_are_the_batches_that_they_stand_for() -> None:
    assert digested(resident=True) == digested(resident=False)


def test_so_they_are_where_the_loader_had_workers() -> None:
    assert digested(resident=True, workers=1) == digested(resident=False, workers=1)
