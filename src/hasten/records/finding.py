"""Something slow or wrong, with its place and its cost."""

from hasten.records.record import Record

MEMORY_PEAK = "memory-peak"
"""The code of the finding that costs no time."""


class Place(Record, frozen=True, kw_only=True):
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class Finding(Record, frozen=True, kw_only=True):
    code: str
    title: str
    """A sentence that says what is slow, with its figure."""
    advice: str
    place: Place | None
    cost_s: float
    """Seconds of a step that it takes."""
    bound: float
    """How many times faster the step would be if it took no time at all."""
