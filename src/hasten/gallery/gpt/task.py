"""``gallery:gpt``: a language model of the shape of GPT-2, tokens in, the next token out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.gallery.gpt.data import EVALUATION_SEED, TRAINING_SEED, make_tokens
from hasten.gallery.gpt.model import GPT, token_cross_entropy
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


SIZES = {
    "small": Size(
        training_rows=512,
        evaluation_rows=32,
        vocabulary=199,
        length=32,
        width=48,
        heads=4,
        blocks=2,
        batch_size=8,
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
    ),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        return Task(
            model=GPT(shape.vocabulary, shape.length, shape.width, shape.heads, shape.blocks),
            data=make_dataset(shape, shape.training_rows, TRAINING_SEED),
            batch_size=shape.batch_size,
            loss=token_cross_entropy,
            optimizer=lambda parameters: AdamW(parameters, lr=6e-4),
            evaluation_data=make_dataset(shape, shape.evaluation_rows, EVALUATION_SEED),
            metrics={
                "token_cross_entropy": Metric(compute=token_cross_entropy, higher_is_better=False)
            },
            count=count_tokens,
        )

    return make_task


def count_tokens(batch: tuple[Tensor, Tensor]) -> int:
    return batch[1].numel()


def make_dataset(shape: Size, rows: int, seed: int) -> TensorDataset:
    return TensorDataset(*make_tokens(rows, shape.length, shape.vocabulary, seed))
