"""``gallery:microbiome``: a transformer on two levels, samples of sequences in, a trait out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.gallery.microbiome.data import EVALUATION_SEED, TRAINING_SEED, make_samples
from hasten.gallery.microbiome.model import SampleTransformer, mean_absolute_error
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int
    sequences: int
    """In a sample."""
    length: int
    """Bases in a sequence."""
    width: int
    blocks: int
    """Of each of the two levels."""
    batch_size: int = 8


SIZES = {
    "small": Size(
        training_rows=512, evaluation_rows=64, sequences=6, length=20, width=32, blocks=1
    ),
    "full": Size(
        training_rows=512, evaluation_rows=64, sequences=128, length=150, width=128, blocks=4
    ),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        return Task(
            model=SampleTransformer(shape.length, shape.width, shape.blocks),
            data=make_dataset(shape, shape.training_rows, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=nn.MSELoss(),
            optimizer=lambda parameters: AdamW(parameters, lr=1e-3),
            evaluation_data=make_dataset(shape, shape.evaluation_rows, EVALUATION_SEED),
            metrics={
                "mean_absolute_error": Metric(compute=mean_absolute_error, higher_is_better=False)
            },
        )

    return make_task


def make_dataset(shape: Size, rows: int, seed: int) -> TensorDataset:
    return TensorDataset(*make_samples(rows, shape.sequences, shape.length, seed))
