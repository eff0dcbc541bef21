"""What a tuning spends its time on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

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

    @contextmanager
    def over(self, part: Part) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._spent[part] = self._spent.get(part, 0.0) + time.monotonic() - began

    def spent(self) -> Spent:
        return Spent(**self._spent)
