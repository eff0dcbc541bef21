"""What a technique did at run time."""

from collections.abc import Iterable
from typing import Literal

from hasten.records.record import Record

OUT_OF_MEMORY = "out of memory"
"""So begins the reason of what fell back for want of it."""


class Applied(Record, frozen=True, kw_only=True):
    technique: str
    outcome: Literal["done", "skipped", "fell_back"]
    why: str

    @property
    def ran_out_of_memory(self) -> bool:
        return self.why.startswith(OUT_OF_MEMORY)

    def __str__(self) -> str:
        return f"{self.technique}: {self.outcome.replace('_', ' ')} ({self.why})"


def fallback_in(applied: Iterable[Applied]) -> Applied | None:
    """The first of them that did not really run."""
    return next((each for each in applied if each.outcome != "done"), None)
