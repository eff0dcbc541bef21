"""``gallery:battery``: a recurrent network over windows of a battery's sensors, one value out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.gallery.battery.data import EVALUATION_SEED, TRAINING_SEED, make_windows
from hasten.gallery.battery.model import ChargeLSTM, mean_absolute_error
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int
    length: int
    """Moments in a window."""
    hidden: int
    batch_size: int


SIZES = {
    "small": Size(training_rows=2048, evaluation_rows=256, length=40, hidden=32, batch_size=32),
    "full": Size(
        training_rows=60_000, evaluation_rows=6_000, length=200, hidden=128, batch_size=100
    ),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        return Task(
            model=ChargeLSTM(shape.hidden),
            data=make_dataset(shape.training_rows, shape.length, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=nn.MSELoss(),
            optimizer=lambda parameters: AdamW(parameters, lr=1e-3),
            evaluation_data=make_dataset(shape.evaluation_rows, shape.length, EVALUATION_SEED),
            metrics={
                "mean_absolute_error": Metric(compute=mean_absolute_error, higher_is_better=False)
            },
        )

    return make_task


def make_dataset(rows: int, length: int, seed: int) -> TensorDataset:
    return TensorDataset(*make_windows(rows, length, seed))
