"""``gallery:gpt``: a language model of the shape of GPT-2, tokens in, the next token out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.data.cache.cached import cached
from hasten.gallery.gpt.data import EVALUATION_SEED, TRAINING_SEED, make_windows
from hasten.gallery.gpt.library import read_library
from hasten.gallery.gpt.model import GPT, token_cross_entropy
from hasten.gallery.gpt.vocabulary import Tokens, learn_vocabulary
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    training_rows: int
    evaluation_rows: int
    vocabulary: int
    length: int
    """Tokens of a sequence that are learnt from."""
    width: int
    heads: int
    blocks: int
    batch_size: int
    learning_rate: float


SIZES = {
    "small": Size(
        training_rows=4_096,
        evaluation_rows=256,
        vocabulary=256,
        length=64,
        width=48,
        heads=4,
        blocks=2,
        batch_size=8,
        learning_rate=3e-3,
    ),
    "full": Size(
        training_rows=4_000,
        # All logits of the evaluation are held at once, 0.2 GB for each row.
        evaluation_rows=16,
        vocabulary=50_257,
        length=1024,
        width=768,
        heads=12,
        blocks=12,
        batch_size=16,
        learning_rate=6e-4,
    ),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        library = read_library()
        training, evaluation = encode_both(library.training, library.evaluation, shape.vocabulary)
        return Task(
            model=GPT(shape.vocabulary, shape.length, shape.width, shape.heads, shape.blocks),
            data=make_dataset(training, shape.training_rows, shape.length, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=token_cross_entropy,
            optimizer=lambda parameters: AdamW(parameters, lr=shape.learning_rate),
            evaluation_data=make_dataset(
                evaluation, shape.evaluation_rows, shape.length, EVALUATION_SEED
            ),
            metrics={
                "token_cross_entropy": Metric(compute=token_cross_entropy, higher_is_better=False)
            },
            count=count_tokens,
        )

    return make_task


def count_tokens(batch: tuple[Tensor, Tensor]) -> int:
    return batch[1].numel()


@cached
def encode_both(training: bytes, evaluation: bytes, vocabulary: int) -> tuple[Tokens, Tokens]:
    """The vocabulary is that of the training's text."""
    learnt = learn_vocabulary(training, vocabulary)
    return learnt.encode(training), learnt.encode(evaluation)


def make_dataset(tokens: Tokens, rows: int, length: int, seed: int) -> TensorDataset:
    return TensorDataset(*make_windows(tokens, rows, length, seed))
