"""Two arms against each other for a set time: a figure to keep, or to hold against a kept one.

Unlike a comparison it is never ended early: a figure that was taken when it looked decided would
be too large by a little. And each arm has blocks of its own length, since the arms may be as
different as a task and the reference.
"""

import random
import time

from hasten.measure.compare import Arm, steps_of_a_block, take_round
from hasten.records.verdict import Comparison, Round
from hasten.stats.paired import CONFIDENCE, MARGIN, MINIMUM_ROUNDS, decide, ratio_interval

GAUGE_S = 8.0
"""Of rounds in one pair of processes. More pairs tell more than longer ones: two processes keep an
offset for as long as they live."""


def gauge(a: Arm, b: Arm, *, seed: int) -> Comparison:
    steps = steps_of_a_block(a.step_s), steps_of_a_block(b.step_s)
    order = random.Random(seed)
    rounds: list[Round] = []
    start = time.monotonic()
    while time.monotonic() - start < GAUGE_S or len(rounds) < MINIMUM_ROUNDS:
        rounds.append(take_round(a, b, steps, order))
    interval = ratio_interval([each.a_s for each in rounds], [each.b_s for each in rounds])
    return Comparison(
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        confidence=CONFIDENCE,
        margin=MARGIN,
        decision=decide(interval, MARGIN),
        rounds=tuple(rounds),
        elapsed_s=time.monotonic() - start,
        a_warmup_s=a.warmup_s,
        b_warmup_s=b.warmup_s,
    )
