"""``gallery:microbiome``: a transformer on two levels, samples of sequences in, a trait out, and a
place for each sample, so that distances between the samples of a batch are those on the tree."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from torch import Tensor
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.data.cache.cached import cached
from hasten.data.encoders import Tokenizer
from hasten.gallery.microbiome.data import (
    EVALUATION_SEED,
    LETTERS,
    TRAINING_SEED,
    make_samples,
    pack_targets,
)
from hasten.gallery.microbiome.model import (
    SampleTransformer,
    mean_absolute_error,
    trait_and_distance_loss,
    unifrac_correlation,
)
from hasten.gallery.microbiome.unifrac import unifrac_distances
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int
    tips: int
    """Of the tree: kinds of microbes that there are."""
    sequences: int
    """In a sample."""
    length: int
    """Bases in a sequence."""
    width: int
    blocks: int
    """Of each of the two levels."""
    learning_rate: float
    """The deep model's loss jumps in its first steps at the rate that suits the small one."""
    batch_size: int = 8


SIZES = {
    "small": Size(
        training_rows=512,
        evaluation_rows=64,
        tips=48,
        sequences=12,
        length=24,
        width=32,
        blocks=1,
        learning_rate=1e-3,
    ),
    "full": Size(
        training_rows=512,
        evaluation_rows=64,
        tips=1000,
        sequences=128,
        length=150,
        width=128,
        blocks=4,
        learning_rate=3e-4,
    ),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        return Task(
            model=SampleTransformer(shape.length, shape.width, shape.blocks),
            data=make_dataset(shape, shape.training_rows, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=trait_and_distance_loss,
            optimizer=lambda parameters: AdamW(parameters, lr=shape.learning_rate),
            evaluation_data=make_dataset(shape, shape.evaluation_rows, EVALUATION_SEED),
            metrics={
                "mean_absolute_error": Metric(compute=mean_absolute_error, higher_is_better=False),
                "unifrac_correlation": Metric(compute=unifrac_correlation, higher_is_better=True),
            },
            couples_batch=True,
            batch_multiple_of=2,  # a sample alone has no distance
        )

    return make_task


def make_dataset(shape: Size, rows: int, seed: int) -> TensorDataset:
    return TensorDataset(
        *encoded_samples(rows, shape.sequences, shape.length, shape.tips, seed),
    )


@cached
def encoded_samples(
    rows: int, sequences: int, length: int, tips: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Tokens, and the targets as ``pack_targets`` packs them."""
    samples = make_samples(rows, sequences, length, tips, seed)
    distances = unifrac_distances(samples.table, samples.tree, weighted=True, normalized=True)
    return encode_reads(samples.reads), pack_targets(samples.trait, distances)


def encode_reads(reads: list[list[str]]) -> Tensor:
    """Tokens (samples, reads, letters) of reads that are all of one length, as many in each sample.

    A letter that is none of ours is a base that was not read.
    """
    known, unread = LETTERS[:-1], len(LETTERS)  # N is the last
    tokens = Tokenizer(known, unknown_id=unread).encode(list(chain.from_iterable(reads)))
    return tokens.ids.view(len(reads), len(reads[0]), -1)
