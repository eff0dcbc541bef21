"""A batch in pieces whose gradients add up to the whole batch's, exactly but for rounding.

Each piece is weighted by its share of the count (rows, or tokens where the task counts tokens), so
that pieces of unequal size are right too. A loss that couples the rows of a batch has no such
weights and is refused. How a loss combines rows is probed at the 1st, 2nd, 4th, 8th ... batch: a
loss that only later turns out to count something else, such as tokens that are not padding, is
noticed then, and not before.
"""

from collections.abc import Callable
from typing import Any

import torch

from hasten.errors import HastenError
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.task.settings import plain_attributes
from hasten.task.traits import probe_reduction

TRIES = 8
"""Batches that may be too small to tell, or of loss zero; they are computed whole."""


class SplitError(HastenError):
    """The loss of a batch is not a weighted sum over its pieces."""


def weighted_pieces(pipeline: Pipeline, batch: Any) -> list[tuple[Any, float]]:
    """Pieces of a batch with the weight of each in the loss."""
    splits = pipeline.splits
    splits.batches += 1
    if not _capturing(pipeline) and splits.wants_probe(pipeline.model.training):
        splits.note(probe_reduction(pipeline, batch), pipeline.model.training)
    if splits.reduction == "coupled" or splits.unknown > TRIES:
        raise SplitError(
            f"The batch cannot be split: {_why_not(splits.reduction)}.",
            fix="Leave gradient accumulation out; give Task.count where a loss counts tokens.",
        )
    rows = batches.rows_in(batch)
    sizes = batches.even_pieces(rows, pipeline.micro_batches, pipeline.batch_multiple_of)
    if len(sizes) == 1 or splits.reduction == "unknown":
        return [(batch, 1.0)]
    if batches.holds_other_rows(batch, rows):
        raise SplitError(
            f"The batch cannot be split: beside tensors it holds {rows} other values.",
            fix="Let everything in a batch that belongs to its rows be a tensor.",
        )
    splits.pieces = max(splits.pieces, len(sizes))
    return weigh(pipeline, batches.split(batch, sizes), splits.reduction) or [(batch, 1.0)]


def weigh(pipeline: Pipeline, pieces: list[Any], reduction: str) -> list[tuple[Any, float]]:
    """Each piece with its weight; none at all where nothing counts."""
    if reduction == "sum":
        return [(piece, 1.0) for piece in pieces]
    counts = [pipeline.count(piece) for piece in pieces]
    total = sum(counts)
    pairs = zip(pieces, counts, strict=True)
    # A piece of padding alone counts nothing, and its mean would be 0 / 0.
    return [(piece, count / total) for piece, count in pairs if count]


def one_forward_moves_nothing(
    pipeline: Pipeline, pieces: list[tuple[Any, float]]
) -> Callable[[], None]:
    """To be called after each piece's forward pass; at the first piece of the first batch it looks
    whether that has moved statistics or counters, which pieces would move more often than batches.
    """
    if pipeline.splits.moves_nothing or len(pieces) == 1:
        return lambda: None
    model = pipeline.model
    buffers = {name: each.clone() for name, each in model.named_buffers()}
    attributes = plain_attributes(model)

    def check() -> None:
        if pipeline.splits.moves_nothing:
            return
        moved = [n for n, b in model.named_buffers() if not torch.equal(b, buffers.get(n, b))]
        now = plain_attributes(model)
        moved += [place[1] for place in now if attributes.get(place) != now[place]]
        if moved:
            raise SplitError(
                f"The batch cannot be split: each forward pass moves {moved[0]} of the model.",
                fix="Leave gradient accumulation out.",
            )
        pipeline.splits.moves_nothing = True

    return check


def _capturing(pipeline: Pipeline) -> bool:
    return pipeline.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _why_not(reduction: str) -> str:
    if reduction == "coupled":
        return "its loss compares rows, or counts by something else than Task.count"
    return "how its loss combines rows could not be found out"
