"""``gallery:bloom``: a small network in small batches, 1024 bits in, 676 yes-or-no labels out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.data.cache.cached import cached
from hasten.data.encoders import NGrams, bits_to_tensor
from hasten.gallery.bloom.data import (
    EVALUATION_SEED,
    FILTER_BITS,
    TRAINING_SEED,
    make_persons,
)
from hasten.gallery.bloom.model import BloomMLP, dice
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int


SIZES = {
    "small": Size(training_rows=4096, evaluation_rows=512),
    "full": Size(training_rows=100_000, evaluation_rows=10_000),
}


def factory(size: str) -> Callable[[], Task]:
    rows = SIZES[size]

    def make_task() -> Task:
        return Task(
            model=BloomMLP(),
            data=make_dataset(rows.training_rows, TRAINING_SEED),
            batch_size=64,
            loss=nn.BCEWithLogitsLoss(),
            optimizer=lambda parameters: AdamW(parameters, lr=1e-3),
            evaluation_data=make_dataset(rows.evaluation_rows, EVALUATION_SEED),
            metrics={"dice": Metric(compute=dice, higher_is_better=True)},
        )

    return make_task


def make_dataset(rows: int, seed: int) -> TensorDataset:
    return TensorDataset(*encoded_persons(rows, seed))


@cached
def encoded_persons(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    persons = make_persons(rows, seed)
    bits = bits_to_tensor(persons.bits, width=FILTER_BITS)
    return bits, NGrams().encode(persons.given_name, persons.surname)
