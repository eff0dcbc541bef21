"""Two arms against each other: interleaved blocks in random order, looked at as they come.

Looks at growing times cost little: at each one the whole interval must lie beyond the margin, and
what wins here is measured again in fresh processes before it is claimed.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hasten.host.load import LoadMeter
from hasten.measure import messages
from hasten.measure.placement import SharedCores
from hasten.measure.worker import REPLY_LIMIT_S, Worker
from hasten.records.applied import Applied, fallback_in
from hasten.records.measurement import Memory
from hasten.records.verdict import Comparison, Round
from hasten.stats.paired import (
    CONFIDENCE,
    MARGIN,
    MINIMUM_ROUNDS,
    SAME,
    Interval,
    decide,
    pooled,
    ratio_interval,
)

BLOCK_S = 0.02
"""A machine's speed wanders, and what is taken close together is alike
(benchmarks/block_lengths.py). The step that brings a woken process's caches and threads back is not
timed."""
LAUNCHED_BLOCK_S = 0.005
"""Of work for another device. A host that launches differs from one waking to the next, however
long it is awake, so that it is the number of rounds that counts."""
LOOKS_SHARE = 4
"""Looking again and again gives chance more chances. The looks are alike, so that each gets a
quarter of the error, not an eighth."""
SMALL = 1.05
"""A gain below it, of which nothing shows at the first look, is not waited for."""
LOOKS_S = (4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 25.0, 30.0)
WARM_STEPS = 8
BLOCK_LIMIT_S = 300.0
"""Beyond a hundred times what a block should take: loader workers may be started in it."""


class Arm:
    """A worker with a plan started and warm."""

    def __init__(
        self, worker: Worker, warmed: messages.Warmed, state: dict[str, str] | None = None
    ) -> None:
        """``state`` are the digests of what it began with, where they were asked for."""
        self.worker = worker
        self.state = state
        self.warmup_s = warmed.elapsed_s
        self.step_s = warmed.step_s
        self.applied: tuple[Applied, ...] = warmed.applied
        self.threads = warmed.threads
        self.ahead = warmed.ahead
        self.has_workers = warmed.has_workers
        self.device = warmed.device

    def read(self) -> Memory:
        """Peak memory so far; what was applied is read again too."""
        outcome = self.worker.ask(messages.ReadOutcome(), messages.OutcomeRead)
        self.applied = outcome.applied
        return outcome.memory

    def fell_back(self) -> Applied | None:
        return fallback_in(self.applied)


@dataclass(frozen=True)
class Contest:
    """A comparison of two plans, and what became of them in its processes."""

    comparison: Comparison
    a_applied: tuple[Applied, ...]
    b_applied: tuple[Applied, ...]
    a_memory: Memory
    b_memory: Memory

    @property
    def applied(self) -> tuple[Applied, ...]:
        return (*self.a_applied, *self.b_applied)


def warm_up(
    workers: Sequence[tuple[Worker, messages.Start]],
    limit_s: float = REPLY_LIMIT_S,
    *,
    digest: bool = False,
) -> list[Arm]:
    """Build and warm several workers, each within ``limit_s``. They build at the same time; they
    warm one by one, so that the time it takes to warm up is their own. ``digest`` what they begin
    with."""
    for worker, start in workers:
        worker.send(start)
    for worker, _ in workers:
        worker.receive(messages.Started)
    arms = []
    for worker, _ in workers:
        for other, _ in workers:
            other.pause()
        state = None
        if digest:
            state = worker.ask(messages.DigestState(), messages.StateDigested).state
        warmed = worker.ask(messages.Warm(steps=WARM_STEPS), messages.Warmed, limit_s)
        worker.pause()
        arms.append(Arm(worker, warmed, state))
    return arms


def compare(
    a: Arm,
    b: Arm,
    *,
    seed: int,
    only_faster: bool = False,
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
    limit_s: float = LOOKS_S[-1],
    earlier: Sequence[Interval] = (),
) -> Comparison:
    """How many times faster B is than A, until a look decides or the time is up.

    ``confidence`` is that of the whole comparison, all looks together. A difference is one that
    lies beyond ``margin``. With ``only_faster`` it also ends when B can no longer turn out much
    faster. With ``earlier`` comparisons of the same two it is over when all of them together
    decide.
    """
    rounds = Rounds(a, b, steps=(block_steps(a), block_steps(b)), seed=seed)
    looks = [each for each in LOOKS_S if each < limit_s] + [limit_s]
    for look in looks:
        # Slow steps may go past the limit: fewer rounds than the minimum say nothing at all.
        rounds.take_for(look, at_least=MINIMUM_ROUNDS if look == looks[-1] else 0)
        interval = rounds.interval(1 - (1 - confidence) / LOOKS_SHARE)
        if _is_decided(pooled([*earlier, interval], offset=margin), margin):
            break
        if only_faster and is_hopeless(interval.ratio, interval.high, margin):
            break
    return rounds.end(interval, confidence, margin)


def is_hopeless(ratio: float, high: float, margin: float) -> bool:
    """B is not faster; or if it is then by little, and nothing of it is seen."""
    return high < 1 + margin or (high < SMALL and ratio < 1 + margin)


def _is_decided(interval: Interval, margin: float) -> bool:
    """On a noisy machine the margin is wide, and what lies within it is not yet the same."""
    if decide(interval, margin) in ("faster", "slower"):
        return True
    return decide(interval, min(margin, SAME)) == "same"


class Rounds:
    """Blocks of two arms in turn, in random order, on the same cores."""

    def __init__(self, a: Arm, b: Arm, *, steps: tuple[int, int], seed: int) -> None:
        self._a, self._b, self._steps = a, b, steps
        self._order = random.Random(seed)
        self._cores = SharedCores([a.threads, b.threads], self._order)
        self._load = LoadMeter([a.worker.pid, b.worker.pid])
        self._rounds: list[Round] = []
        self._start = time.monotonic()

    def take_for(self, seconds: float, *, at_least: int) -> None:
        """Until so many seconds have passed since the beginning."""
        try:
            while time.monotonic() - self._start < seconds or len(self._rounds) < at_least:
                self._cores.draw()
                self._rounds.append(self._take())
        finally:
            self._cores.release()  # an arm whose rival failed goes on to the next comparison
        self._load.look()

    def interval(self, confidence: float) -> Interval:
        a_s = [each.a_s for each in self._rounds]
        b_s = [each.b_s for each in self._rounds]
        elapsed_s = time.monotonic() - self._start
        found = ratio_interval(a_s, b_s, confidence=confidence, elapsed_s=elapsed_s)
        if self._a.has_workers or self._b.has_workers:
            return found.widened_to(sum(a_s) / sum(b_s))
        return found

    def end(self, interval: Interval, confidence: float, margin: float) -> Comparison:
        return Comparison(
            ratio=interval.ratio,
            low=interval.low,
            high=interval.high,
            confidence=confidence,
            margin=margin,
            decision=decide(interval, margin),
            rounds=tuple(self._rounds),
            elapsed_s=time.monotonic() - self._start,
            a_warmup_s=self._a.warmup_s,
            b_warmup_s=self._b.warmup_s,
            load=self._load.read(),
        )

    def _take(self) -> Round:
        first: Literal["a", "b"] = "a" if self._order.random() < 0.5 else "b"
        if first == "a":
            a_s = time_block(self._a, self._steps[0])
            b_s = time_block(self._b, self._steps[1])
        else:
            b_s = time_block(self._b, self._steps[1])
            a_s = time_block(self._a, self._steps[0])
        return Round(first=first, a_s=a_s, b_s=b_s)


def block_steps(arm: Arm) -> int:
    """As many as its own block holds: in one of as few as a slow arm takes, a fast one would be
    timed while it wakes up."""
    return steps_of_block(arm.step_s, arm.ahead, arm.device)


def steps_of_block(step_s: float, ahead: int, device: str) -> int:
    """Not fewer than are run first to use up what a loader got ahead by."""
    block_s = BLOCK_S if device == "cpu" else LAUNCHED_BLOCK_S
    return max(1, ahead, round(block_s / max(1e-6, step_s)))


def time_block(arm: Arm, steps: int) -> float:
    """Seconds per row; the arm's process group runs for its own blocks only."""
    limit_s = BLOCK_LIMIT_S + 100 * steps * arm.step_s
    block = arm.worker.ask(messages.TimeBlock(steps=steps), messages.Block, limit_s)
    arm.worker.pause()
    return block.elapsed_s / block.rows
