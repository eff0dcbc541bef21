"""Two arms against each other: interleaved blocks in random order, looked at as they come.

Looks at growing times cost little: at each one the whole interval must lie beyond the margin, and
what wins here is measured again in fresh processes before it is claimed.
"""

import random
import time
from collections.abc import Sequence
from typing import Literal

from hasten.measure import messages
from hasten.measure.worker import Worker
from hasten.records.applied import Applied
from hasten.records.verdict import Comparison, Round
from hasten.stats.paired import CONFIDENCE, MARGIN, MINIMUM_ROUNDS, decide, ratio_interval

BLOCK_S = 0.06
"""Long enough that starting and stopping a process is lost in it, short enough to interleave."""
LOOKS_SHARE = 4
"""Looking again and again gives chance more chances. The looks are alike, so that each gets a
quarter of the error, not an eighth: simulated identical arms with heavy tails were called
different in 0.5 % of all comparisons with this and in 1.8 % without."""
LOOKS_S = (4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 25.0, 30.0)
WARM_STEPS = 8


class Arm:
    """A worker with a plan started and warm."""

    def __init__(self, worker: Worker, warmed: messages.Warmed) -> None:
        self.worker = worker
        self.warmup_s = warmed.elapsed_s
        self.step_s = warmed.step_s
        self.applied: tuple[Applied, ...] = warmed.applied

    def fell_back(self) -> Applied | None:
        return next((each for each in self.applied if each.outcome != "done"), None)


def warm_up(workers: Sequence[tuple[Worker, messages.Start]]) -> list[Arm]:
    """Build and warm several workers. They build at the same time; they warm one by one, so that
    the time it takes to warm up is their own."""
    for worker, start in workers:
        worker.send(start)
    for worker, _ in workers:
        worker.receive(messages.Started)
    arms = []
    for worker, _ in workers:
        for other, _ in workers:
            other.pause()
        warmed = worker.ask(messages.Warm(steps=WARM_STEPS), messages.Warmed)
        worker.pause()
        arms.append(Arm(worker, warmed))
    return arms


def compare(
    a: Arm,
    b: Arm,
    *,
    seed: int,
    only_faster: bool = False,
    confidence: float = CONFIDENCE,
    limit_s: float = LOOKS_S[-1],
) -> Comparison:
    """How many times faster B is than A, until a look decides or the time is up.

    ``confidence`` is that of the whole comparison, all looks together.

    With ``only_faster`` it also ends when B can no longer turn out faster.
    """
    steps = steps_of_a_block(max(a.step_s, b.step_s))
    order = random.Random(seed)
    rounds: list[Round] = []
    start = time.monotonic()
    looks = [each for each in LOOKS_S if each < limit_s] + [limit_s]
    for look in looks:
        # Slow steps may go past the limit: fewer rounds than the minimum say nothing at all.
        needed = MINIMUM_ROUNDS if look == looks[-1] else 0
        while time.monotonic() - start < look or len(rounds) < needed:
            rounds.append(take_round(a, b, (steps, steps), order))
        interval = ratio_interval(
            [each.a_s for each in rounds],
            [each.b_s for each in rounds],
            confidence=1 - (1 - confidence) / LOOKS_SHARE,
        )
        decision = decide(interval, MARGIN)
        if decision != "undecided" or (only_faster and interval.high < 1 + MARGIN):
            break
    return Comparison(
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        margin=MARGIN,
        decision=decision,
        rounds=tuple(rounds),
        elapsed_s=time.monotonic() - start,
        a_warmup_s=a.warmup_s,
        b_warmup_s=b.warmup_s,
    )


def steps_of_a_block(step_s: float) -> int:
    return max(1, round(BLOCK_S / max(step_s, 1e-6)))


def take_round(a: Arm, b: Arm, steps: tuple[int, int], order: random.Random) -> Round:
    """A block of each arm, of so many steps."""
    first: Literal["a", "b"] = "a" if order.random() < 0.5 else "b"
    if first == "a":
        a_s = _block(a, steps[0])
        b_s = _block(b, steps[1])
    else:
        b_s = _block(b, steps[1])
        a_s = _block(a, steps[0])
    return Round(first=first, a_s=a_s, b_s=b_s)


def _block(arm: Arm, steps: int) -> float:
    """Seconds per row; the arm's process group runs for its own blocks only."""
    block = arm.worker.ask(messages.TimeBlock(steps=steps), messages.Block)
    arm.worker.pause()
    return block.elapsed_s / block.rows
