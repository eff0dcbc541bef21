"""A batch in pieces whose gradients add up to the whole batch's, exactly but for rounding.

Each piece is weighted by its share of the count (rows, or tokens where the task counts tokens), so
that pieces of unequal size are right too. A loss that couples the rows of a batch has no such
weights and is refused.
"""

from typing import Any

from hasten.errors import HastenError
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.task.traits import probe_reduction


class SplitError(HastenError):
    """The loss of a batch is not a weighted sum over its pieces."""


def weighted_pieces(pipeline: Pipeline, batch: Any) -> list[tuple[Any, float]]:
    """Pieces of a batch with the weight of each in the loss.

    How the loss combines rows is probed on the first batch and kept (``probe_reduction``).
    """
    if pipeline.reduction is None:
        pipeline.reduction = probe_reduction(pipeline, batch)
    if pipeline.reduction not in ("mean", "sum"):
        raise SplitError(
            f"The batch cannot be split: {why_not(pipeline.reduction)}.",
            fix="Leave gradient accumulation out; give Task.count where a loss counts tokens.",
        )
    rows = batches.rows_in(batch)
    sizes = batches.even_pieces(rows, pipeline.micro_batches, pipeline.batch_multiple_of)
    if len(sizes) == 1:
        return [(batch, 1.0)]
    return weigh(pipeline, batches.split(batch, sizes))


def weigh(pipeline: Pipeline, pieces: list[Any]) -> list[tuple[Any, float]]:
    if pipeline.reduction == "sum":
        return [(piece, 1.0) for piece in pieces]
    counts = [pipeline.count(piece) for piece in pieces]
    total = sum(counts)
    pairs = zip(pieces, counts, strict=True)
    # A piece of padding alone counts nothing, and its mean would be 0 / 0.
    return [(piece, count / total) for piece, count in pairs if count]


def why_not(reduction: str) -> str:
    if reduction == "coupled":
        return "its loss compares rows, or counts by something else than Task.count"
    return "how its loss combines rows could not be found out"
