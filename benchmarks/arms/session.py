"""The arms of one workload, live, from their preparation to their figures."""

import random
import time
from collections.abc import Callable
from typing import Any

from arms.process import ArmError, ArmProcess
from arms.summary import better_expert, describe_losses, describe_speed

BLOCK_LIMIT_S = 120.0
"""For one block with what goes before it; an arm that takes longer hangs."""


class Session:
    """An arm that fails leaves the rounds, with its reason in the results; the others go on."""

    def __init__(self, processes: dict[str, ArmProcess], *, seed: int) -> None:
        self._live = dict(processes)
        self._order = random.Random(seed)
        self._rows: dict[str, dict[str, Any]] = {
            name: {"outcome": "measured"} for name in processes
        }
        self._steps: dict[str, int] = {}
        self._losses: dict[str, list[float]] = {}
        self._seconds: dict[str, list[float]] = {name: [] for name in processes}
        self._elapsed_s = 0.0

    def prepare(self, limit_s: float) -> None:
        """All at the same time, as most of it is compilation; then nobody runs."""
        until = time.monotonic() + limit_s
        self._each(lambda name, process: process.send("prepare"))

        def await_one(name: str, process: ArmProcess) -> None:
            self._rows[name] |= process.receive(until)

        self._each(await_one)
        self._each(lambda name, process: process.pause())

    def record_losses(self, steps: int, limit_s: float) -> None:
        def train_one(name: str, process: ArmProcess) -> None:
            reply = process.ask("train", limit_s=limit_s, steps=steps)
            self._losses[name] = reply.pop("losses")
            self._rows[name] |= reply

        self._each(train_one)

    def calibrate(self, block_s: float) -> None:
        def calibrate_one(name: str, process: ArmProcess) -> None:
            reply = process.ask("calibrate", limit_s=BLOCK_LIMIT_S, block_s=block_s)
            self._steps[name] = self._rows[name]["steps_per_block"] = reply["steps"]

        self._each(calibrate_one)

    def run_rounds(self, seconds: float) -> None:
        start = time.monotonic()
        while self._live and time.monotonic() - start < seconds:
            self._each(self._run_block, shuffled=True)
        self._elapsed_s = time.monotonic() - start

    def _run_block(self, name: str, process: ArmProcess) -> None:
        steps = self._steps[name]
        reply = process.ask("block", limit_s=BLOCK_LIMIT_S, steps=steps)
        self._seconds[name].append(reply["elapsed_s"] / (steps * self._rows[name]["batch_size"]))

    def finish(self) -> dict[str, Any]:
        def finish_one(name: str, process: ArmProcess) -> None:
            self._rows[name] |= process.ask("finish", limit_s=BLOCK_LIMIT_S)

        self._each(finish_one)
        speeds = {name: describe_speed(name, self._seconds) for name in self._live}
        losses = describe_losses(self._losses)
        arms = {
            name: row | speeds.get(name, {}) | losses.get(name, {})
            for name, row in self._rows.items()
        }
        rounds = max(map(len, self._seconds.values()), default=0)
        return {
            "expert": better_expert(self._seconds),
            "rounds": rounds,
            "rounds_s": round(self._elapsed_s, 1),
            "arms": arms,
        }

    def _each(self, action: Callable[[str, ArmProcess], None], *, shuffled: bool = False) -> None:
        names = list(self._live)
        if shuffled:
            self._order.shuffle(names)
        for name in names:
            try:
                action(name, self._live[name])
            except ArmError as error:
                self._drop(name, error)

    def _drop(self, name: str, error: ArmError) -> None:
        self._live.pop(name).end()
        self._rows[name] |= error.row
        # Its rounds would no longer pair with the others'.
        self._seconds[name] = []
