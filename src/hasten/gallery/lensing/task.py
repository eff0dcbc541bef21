"""``gallery:lensing``: a convolutional network, images of the sky in, lens or look-alike out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import Dataset, TensorDataset

from hasten.data.cache.cached import cached
from hasten.gallery.lensing.data import EVALUATION_SEED, TRAINING_SEED, make_images
from hasten.gallery.lensing.files import ImageFiles, image_folder
from hasten.gallery.lensing.metric import auc
from hasten.gallery.lensing.model import ManyScales, ResNet18, loss_of_scales
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int
    pixels: int
    """Of an image's side."""
    width: int
    batch_size: int
    scales: int
    """1: the whole image; 3: also at a half and a quarter of its side, each with a network."""
    dropout: float
    """Before the last layer."""
    files: bool
    """Whether an image is a file that is decoded when it is asked for, or all are in memory."""


def _small(*, files: bool) -> Size:
    return Size(
        training_rows=1024,
        evaluation_rows=256,
        pixels=48,
        width=8,
        batch_size=32,
        scales=3,
        dropout=0.2,
        files=files,
    )


def _full(*, scales: int = 1, dropout: float = 0.0, files: bool = False) -> Size:
    return Size(
        training_rows=6_000,
        evaluation_rows=600,
        pixels=64,
        width=64,
        batch_size=64,
        scales=scales,
        dropout=dropout,
        files=files,
    )


SIZES = {
    "small": _small(files=False),
    "small-files": _small(files=True),
    "full": _full(),
    "full-files": _full(files=True),
    "full-scales": _full(scales=3, dropout=0.2),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]
    make = make_file_dataset if shape.files else make_dataset

    def make_task() -> Task:
        return Task(
            model=make_model(shape),
            data=make(shape.training_rows, shape.pixels, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=nn.CrossEntropyLoss() if shape.scales == 1 else loss_of_scales,
            optimizer=lambda parameters: AdamW(parameters, lr=2e-3),
            evaluation_data=make(shape.evaluation_rows, shape.pixels, EVALUATION_SEED),
            metrics={"auc": Metric(compute=auc, higher_is_better=True)},
        )

    return make_task


def make_model(shape: Size) -> nn.Module:
    networks = [ResNet18(shape.width, dropout=shape.dropout) for _ in range(shape.scales)]
    return networks[0] if shape.scales == 1 else ManyScales(networks)


def make_dataset(rows: int, pixels: int, seed: int) -> Dataset[tuple[Tensor, ...]]:
    return TensorDataset(*cached(make_images)(rows, pixels, seed))


def make_file_dataset(rows: int, pixels: int, seed: int) -> Dataset[tuple[Tensor, ...]]:
    """The same items as of ``make_dataset``, to the bit."""
    return ImageFiles(image_folder(rows, pixels, seed))
