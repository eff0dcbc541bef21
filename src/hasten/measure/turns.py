"""Two plans that do not fit on the device together: whole processes take turns.

Each round starts a process of either arm, one after the other in random order, and times it for
some seconds. A round is then as long as both of them take to warm up, and there are few; the
interval is Student's, of the mean of their log ratios.

Limits: within a round the arms are tens of seconds apart, so that a machine that changes its pace
meanwhile makes the interval wide.
"""

import math
import random
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from hasten.host.load import LoadMeter
from hasten.measure.compare import Arm, Contest, block_steps, is_hopeless, time_block
from hasten.records.applied import Applied, fallback_in
from hasten.records.measurement import Memory
from hasten.records.verdict import Comparison, Decision, Round
from hasten.stats.paired import CONFIDENCE, FEWEST_TURNS, MARGIN, decide, interval_of_few

T = TypeVar("T")
MOST_TURNS = 10
TURN_S = 3.0


class Side:
    """What is kept of the processes of one arm."""

    def __init__(self, start: Callable[[], Arm]) -> None:
        self._start = start
        self.applied: tuple[Applied, ...] = ()
        self.memory = Memory()
        self.warmups: list[float] = []

    def take_turn(self) -> float:
        """Seconds per row in a process of its own: the median of blocks, and the mean where loader
        workers may start in some of them."""
        arm = self._start()
        try:
            steps = block_steps(arm)
            blocks, began = [time_block(arm, steps)], time.monotonic()
            while time.monotonic() - began < TURN_S:
                blocks.append(time_block(arm, steps))
            memory = arm.read()
            if fallback_in(self.applied) is None:  # else what is timed is no longer the plan alone
                self.memory, self.applied = memory, arm.applied
            self.warmups.append(arm.warmup_s)
        finally:
            arm.worker.close()
        return statistics.fmean(blocks) if arm.has_workers else statistics.median(blocks)


def compare_in_turns(
    start: Callable[[T], Arm],
    a: T,
    b: T,
    *,
    seed: int,
    only_faster: bool = False,
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
    limit_s: float = math.inf,
) -> Contest:
    """Until the interval decides, or the turns are used up; the fewest that give an interval are
    taken however long that is. ``start`` gives a fresh process. With ``only_faster`` it also ends
    where B can no longer turn out much faster, or fell back."""
    one, other = Side(lambda: start(a)), Side(lambda: start(b))
    order, load = random.Random(seed), LoadMeter([])
    began = time.monotonic()
    rounds: list[Round] = []
    decision: Decision = "undecided"
    while len(rounds) < MOST_TURNS and decision == "undecided":
        if len(rounds) >= FEWEST_TURNS and time.monotonic() - began > limit_s:
            break
        rounds.append(_round(one, other, order))
        interval = interval_of_few(
            [each.a_s for each in rounds],
            [each.b_s for each in rounds],
            # Each look gets its share of the error.
            confidence=1 - (1 - confidence) / (MOST_TURNS - FEWEST_TURNS + 1),
        )
        decision = decide(interval, margin)
        hopeless = is_hopeless(interval.ratio, interval.high, margin)
        if only_faster and (hopeless or fallback_in(other.applied)):
            break
    comparison = Comparison(
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        margin=margin,
        decision=decision,
        rounds=tuple(rounds),
        elapsed_s=time.monotonic() - began,
        a_warmup_s=statistics.median(one.warmups),
        b_warmup_s=statistics.median(other.warmups),
        load=load.read(),
    )
    return Contest(comparison, one.applied, other.applied, one.memory, other.memory)


def _round(one: Side, other: Side, order: random.Random) -> Round:
    if order.random() < 0.5:
        a_s = one.take_turn()
        return Round(first="a", a_s=a_s, b_s=other.take_turn())
    b_s = other.take_turn()
    return Round(first="b", a_s=one.take_turn(), b_s=b_s)
