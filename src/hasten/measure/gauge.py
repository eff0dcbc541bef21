"""Two arms against each other for a set time: a figure to keep, or to hold against a kept one.

Unlike a comparison it is never ended early: a figure that was taken when it looked decided would
be too large by a little. And each arm has blocks of its own length, since the arms may be as
different as a task and the reference.
"""

from hasten.measure.compare import Arm, Rounds, block_steps
from hasten.records.verdict import Comparison
from hasten.stats.paired import CONFIDENCE, MARGIN, MINIMUM_ROUNDS

GAUGE_S = 8.0
"""Of rounds in one pair of processes. More pairs tell more than longer ones: two processes keep an
offset for as long as they live."""


def gauge(a: Arm, b: Arm, *, seed: int) -> Comparison:
    rounds = Rounds(a, b, steps=(block_steps(a), block_steps(b)), seed=seed)
    rounds.take_for(GAUGE_S, at_least=MINIMUM_ROUNDS)
    return rounds.end(rounds.interval(CONFIDENCE), CONFIDENCE, MARGIN)
