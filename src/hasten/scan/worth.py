"""What it was measured to be worth to follow a rule, as worth.json has it from dated results
(benchmarks/rule_worth.py). A rule that is not in there was not measured."""

from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("worth.json")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Both ways to write it in turns, on one machine."""

    on: str
    times: float
    """As fast as before; the median of the rounds, with the least and the most of them."""
    least: float
    most: float
    results: str
    """The file of results."""

    def __str__(self) -> str:
        return f"{_times(self.times)} on {self.on} ({_times(self.least)} to {_times(self.most)})"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    about: str
    """The work that was measured."""
    measured: tuple[Measured, ...]


def worth_of(code: str) -> str:
    """In a sentence; empty where it was not measured."""
    found = _kept().get(code)
    if found is None:
        return ""
    files = ", ".join(each.results for each in found.measured)
    return f"{found.about}: {'; '.join(map(str, found.measured))} [{files}]"


@cache
def _kept() -> dict[str, Worth]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Worth])
