"""Arms that only pretend to train, on a machine that drifts, bursts and jumps.

The block of an arm takes what its plan takes, times what the machine makes of it at that moment
(drift, a hog that comes midway, a slowly wandering speed, all shared by both arms), times what
happens to this arm alone (wandering as well, since neighbouring blocks are alike), times a heavy
tail, times an offset that this process keeps for as long as it lives.
"""

import math
import os
import random
from types import SimpleNamespace
from typing import Any

from hasten.measure import compare as comparing
from hasten.measure import messages
from hasten.measure.compare import Arm, Contest
from hasten.records.measurement import Memory

STEP_S = 0.005
ROWS = 64
OFFSET = 0.0022
"""Standard deviation of the log: 0.31 % was measured between two identical processes."""
STALL = 4.0
"""The log of what a block is slowed by at most: fifty times."""
OVERHEAD_S = 0.004
"""Of a block: signals, messages and what is drained."""


class Wandering:
    """A speed that wanders about its middle: a first-order autoregression of the log."""

    def __init__(self, draw: random.Random, spread: float, memory_s: float) -> None:
        self._draw, self._spread, self._memory_s = draw, spread, memory_s
        self._at, self._value = 0.0, draw.gauss(0, spread)

    def at(self, now: float) -> float:
        kept = math.exp(-(now - self._at) / self._memory_s)
        fresh = self._spread * math.sqrt(max(0.0, 1 - kept * kept))
        self._value = kept * self._value + self._draw.gauss(0, fresh)
        self._at = now
        return self._value


class Machine:
    """One of many, drawn at random: from quiet to unusable."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 0.0
        self.trouble = self.draw.choice((0.2, 1.0, 3.0))
        self.drift = self.draw.uniform(-0.005, 0.005) * self.trouble
        self.hog_at = self.draw.uniform(2, 60) if self.draw.random() < 0.5 else math.inf
        self.shared = Wandering(self.draw, 0.05 * self.trouble, self.draw.choice((0.3, 3.0, 20.0)))
        self.freedom = self.draw.choice((2, 3, 8))
        """Of the tail: 2 is so heavy that it has no variance."""

    def monotonic(self) -> float:
        return self.now

    def slowness(self) -> float:
        log = self.drift * self.now + self.shared.at(self.now)
        if self.now >= self.hog_at:
            log += 0.4 + abs(self.draw.gauss(0, 0.3))
        return log

    def tail(self) -> float:
        """Student's t, of which only the slow side is real."""
        normal = self.draw.gauss(0, 1)
        squares = sum(self.draw.gauss(0, 1) ** 2 for _ in range(self.freedom))
        return min(STALL, 0.01 * self.trouble * abs(normal) / math.sqrt(squares / self.freedom))


class PretendingWorker:
    pid = os.getpid()

    def __init__(self, machine: Machine, step_s: float) -> None:
        self._machine, self._step_s = machine, step_s
        self._offset = machine.draw.gauss(0, OFFSET)
        own = 0.02 * machine.trouble
        self._own = Wandering(machine.draw, own, machine.draw.choice((0.1, 1.0)))

    def ask(self, request: messages.TimeBlock, *_: Any) -> messages.Block:
        machine = self._machine
        log = machine.slowness() + self._own.at(machine.now) + self._offset + machine.tail()
        elapsed = request.steps * self._step_s * math.exp(log)
        machine.now += elapsed + OVERHEAD_S
        return messages.Block(elapsed_s=elapsed, rows=ROWS * request.steps)

    def pause(self) -> None:
        pass


def pretend(machine: Machine, slower: float = 0.0) -> Arm:
    """A fresh process of a training that takes ``slower`` more, as a share."""
    step_s = STEP_S * (1 + slower)
    warmed = messages.Warmed(elapsed_s=1.0, step_s=STEP_S, applied=(), threads=())
    return Arm(PretendingWorker(machine, step_s), warmed)  # type: ignore[arg-type]


class PretendingLab:
    """Its subjects are what they take more, as a share."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine, self.seed = machine, seed

    def compare(self, a: float, b: float, *, seed: int, **settings: Any) -> Contest:
        arms = pretend(self._machine, a), pretend(self._machine, b)
        found = comparing.compare(*arms, seed=self.seed + seed, **settings)
        return Contest(found, (), Memory(), Memory())


def live_on(machine: Machine) -> None:
    """From now on comparisons take their time from that machine's clock."""
    comparing.time = machine  # type: ignore[assignment, attr-defined]
    comparing.LoadMeter = lambda processes: SimpleNamespace(  # type: ignore[assignment, misc, attr-defined]
        look=lambda: None, read=lambda: None
    )
