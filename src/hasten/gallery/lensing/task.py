"""``gallery:lensing``: a convolutional network, images of the sky in, lens or no lens out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.gallery.lensing.data import EVALUATION_SEED, TRAINING_SEED, make_images
from hasten.gallery.lensing.model import ResNet18, accuracy
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int
    pixels: int
    """Of an image's side."""
    width: int
    batch_size: int


SIZES = {
    "small": Size(training_rows=512, evaluation_rows=128, pixels=32, width=8, batch_size=16),
    "full": Size(training_rows=6_000, evaluation_rows=600, pixels=64, width=64, batch_size=64),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        return Task(
            model=ResNet18(shape.width),
            data=make_dataset(shape.training_rows, shape.pixels, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=nn.CrossEntropyLoss(),
            optimizer=lambda parameters: AdamW(parameters, lr=1e-3),
            evaluation_data=make_dataset(shape.evaluation_rows, shape.pixels, EVALUATION_SEED),
            metrics={"accuracy": Metric(compute=accuracy, higher_is_better=True)},
        )

    return make_task


def make_dataset(rows: int, pixels: int, seed: int) -> TensorDataset:
    return TensorDataset(*make_images(rows, pixels, seed))
