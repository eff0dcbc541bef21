"""Which steps a trace takes: the beginning of an epoch, its end, and the beginning of the next.

Whole batches take turns with pairs of ragged micro-batches where the loss can be split. The last
batch of an epoch, which is often a partial one, is always taken whole: it is there that windows are
lost, states are not begun anew and schedules step once too often.

Limits: the batches between are loaded and not trained on. Where an epoch does not end within
EDGE_LIMIT_S its end is not in the trace, and ``epoch`` is 0.
"""

import time
from dataclasses import dataclass
from typing import Any

from hasten.errors import HastenError
from hasten.records.traits import Reduction
from hasten.runtime.run import Run
from hasten.step.accumulate import weigh
from hasten.task import batch as batches

BEFORE = 4
"""Batches from the beginning of the first epoch."""
AFTER = 3
"""Batches of the next one: a whole one, a split one, and a whole one that knows of both."""
EDGE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Step:
    pieces: list[tuple[Any, float]]
    """Micro-batches, each with its weight in the loss."""
    begins_epoch: bool


@dataclass(frozen=True)
class Cut:
    steps: list[Step]
    epoch: int
    """Batches in an epoch; 0 where its end was not reached."""


def cut(run: Run, reduction: Reduction, epoch: int | None = None) -> Cut:
    """From the run's own loader. ``epoch`` is what the other side found; None: find out."""
    limit_s = EDGE_LIMIT_S if epoch is None else float("inf") if epoch else 0.0
    first, length = _first_epoch(run, limit_s)
    steps = _cut_epoch(run, reduction, first, whole_last=length > 0)
    while length and (not _reaches_over(steps) or len(steps) < BEFORE):
        steps += _cut_epoch(run, reduction, _beginning(run), whole_last=False)
    return Cut(steps, length)


def _first_epoch(run: Run, limit_s: float) -> tuple[list[Any], int]:
    """Its first batches and its last one, and how many there are."""
    deadline = time.monotonic() + limit_s
    found: list[Any] = []
    count = 0
    for batch in run.dataloader:
        count += 1
        if count <= BEFORE:
            found.append(batch)
        else:
            found[BEFORE:] = [batch]
        if count >= BEFORE and time.monotonic() >= deadline:
            return found[:BEFORE], 0
    return _some(found), count


def _beginning(run: Run) -> list[Any]:
    return _some([batch for _, batch in zip(range(AFTER), run.dataloader, strict=False)])


def _some(found: list[Any]) -> list[Any]:
    if not found:
        raise HastenError(
            "The training data gives no batch when it is gone through again.",
            fix="Let iter(data) begin anew each time.",
        )
    return found


def _reaches_over(steps: list[Step]) -> bool:
    return sum(step.begins_epoch for step in steps) > 1


def _cut_epoch(run: Run, reduction: Reduction, found: list[Any], *, whole_last: bool) -> list[Step]:
    steps = []
    for place, batch in enumerate(found):
        whole = place % 2 == 0 or (whole_last and place == len(found) - 1)
        pieces = [(batch, 1.0)] if whole else _pieces(run, reduction, batch)
        steps.append(Step(pieces, begins_epoch=place == 0))
    return steps


def _pieces(run: Run, reduction: Reduction, batch: Any) -> list[tuple[Any, float]]:
    sizes = batches.ragged_halves(batches.rows_in(batch), run.pipeline.batch_multiple_of)
    if sizes is None or reduction not in ("mean", "sum"):
        return [(batch, 1.0)]
    return weigh(run.pipeline, batches.split(batch, sizes), reduction) or [(batch, 1.0)]
