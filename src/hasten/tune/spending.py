"""What a tuning spends its time on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from hasten.records.tuning import Spent

Part = Literal[
    "measuring_s",
    "search_s",
    "ablation_s",
    "confirmation_s",
    "proof_s",
    "curves_s",
    "larger_batch_s",
]


class Stopwatch:
    def __init__(self) -> None:
        self._spent: dict[Part, float] = {}
        self._running: dict[Part, float] = {}
        """When each began that has not ended."""

    @contextmanager
    def over(self, part: Part) -> Iterator[None]:
        self._running[part] = time.monotonic()
        try:
            yield
        finally:
            self._add(part, time.monotonic() - self._running.pop(part))

    def go_on_from(self, earlier: Spent) -> None:
        """What a tuning that was stopped had spent is part of what this one costs."""
        for part in get_args(Part):
            self._add(part, getattr(earlier, part))

    def spent(self) -> Spent:
        """With what is going on now."""
        now = time.monotonic()
        running = {part: now - began for part, began in self._running.items()}
        parts = {
            part: self._spent.get(part, 0.0) + running.get(part, 0.0) for part in get_args(Part)
        }
        return Spent(**parts)

    def _add(self, part: Part, seconds: float) -> None:
        self._spent[part] = self._spent.get(part, 0.0) + seconds
