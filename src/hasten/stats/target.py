"""How much sooner does one training reach what another comes to? Paired seeds, first passages.

Method: both trainings are looked at after the same numbers of rows, CHECKPOINTS times over the
length of the first one. The level at a checkpoint is the mean over the last WINDOW ones of each
figure: the training loss, and those of the evaluation where there is one. The target is the first
training's own level at its end, and either side has reached it at the first checkpoint at which no
figure is worse. The first side is counted to the checkpoint before that one, the second to it: what
lies between two checkpoints is never a gain. Rows become time by the measured seconds per row. The
logarithms of the seeds' ratios give Student's interval of their mean; the ends of the interval of
the speed are added to its own.

Limits: few seeds, whose ratios are taken to be normal; a training that fails once in a hundred is
not seen by five. Without an evaluation only the training loss is compared, which may be reached by
seeing the same rows more often.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence

from hasten.records.curves import TRAINING_LOSS
from hasten.stats.paired import Interval
from hasten.stats.student import critical_value

CHECKPOINTS = 16
WINDOW = 4
"""A quarter of the first training: one checkpoint's loss alone is mostly its batches'."""
LATE = CHECKPOINTS // 2
"""A target that was reached before is one of a loss that had ceased to fall: nothing to reach."""

Level = Mapping[str, float]


def level(course: Sequence[Level], at: int) -> dict[str, float]:
    """At checkpoint ``at``, from 1."""
    last = course[at - WINDOW : at]
    return {name: statistics.fmean(each[name] for each in last) for name in last[-1]}


def target_of(course: Sequence[Level]) -> dict[str, float]:
    return level(course, len(course))


def has_fallen(course: Sequence[Level]) -> bool:
    """Whether the training loss of every checkpoint of the last quarter is below all of the first.

    One that only wanders passes with a probability of 1 in 70, from each seed.
    """
    losses = [each[TRAINING_LOSS] for each in course]
    return max(losses[-WINDOW:]) < min(losses[:WINDOW])


def reached(course: Sequence[Level], target: Level, higher: Collection[str]) -> int | None:
    """The first checkpoint, from 1, at which no figure is worse; None where there is none.

    ``higher`` names the figures that are the better the higher they are.
    """
    for at in range(WINDOW, len(course) + 1):
        now = level(course, at)
        if all(
            now[name] >= goal if name in higher else now[name] <= goal
            for name, goal in target.items()
        ):
            return at
    return None


def sooner(
    first: Sequence[float], second: Sequence[float], speed: Interval, confidence: float
) -> Interval:
    """How many times sooner the second side is there: rows of each seed to the target, and how many
    times more rows a second it does."""
    if len(first) != len(second) or len(first) < 3:
        raise ValueError(f"{len(first)} and {len(second)} seeds, and 3 pairs are needed")
    logs = [math.log(one / other) for one, other in zip(first, second, strict=True)]
    middle = statistics.fmean(logs)
    reach = critical_value(confidence, len(logs) - 1) * statistics.stdev(logs) / len(logs) ** 0.5
    return Interval(
        math.exp(middle) * speed.ratio,
        math.exp(middle - reach) * speed.low,
        math.exp(middle + reach) * speed.high,
    )
