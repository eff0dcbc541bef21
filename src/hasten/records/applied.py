"""What a technique did at run time."""

from typing import Literal

from hasten.records.record import Record


class Applied(Record, frozen=True, kw_only=True):
    technique: str
    outcome: Literal["done", "skipped", "fell_back"]
    why: str

    def __str__(self) -> str:
        return f"{self.technique}: {self.outcome.replace('_', ' ')} ({self.why})"
