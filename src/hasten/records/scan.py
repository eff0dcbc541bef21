"""What a scan of source code found, as it is written to JSON."""

from typing import Literal

from hasten.records.finding import Place
from hasten.records.record import Record

Severity = Literal["high", "medium", "low", "info"]
Safety = Literal["safe", "unsafe", "display"]
"""Safe: the program does the same. Unsafe: look at it first. Display: to be written by hand."""


class Edit(Record, frozen=True, kw_only=True):
    """Text that is put in place of other text; lines and columns count from 1, in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Fix(Record, frozen=True, kw_only=True):
    safety: Safety
    about: str
    """What is done, in a sentence."""
    edits: tuple[Edit, ...] = ()


class HotLoop(Record, frozen=True, kw_only=True):
    """What makes a line run often."""

    place: Place
    runs: Literal["epoch", "step", "element"]
    """How often the line runs."""
    words: str
    """Such as "for batch in loader"."""


class CodeFinding(Record, frozen=True, kw_only=True):
    code: str
    name: str
    path: str
    line: int
    column: int
    end_line: int
    severity: Severity
    message: str
    why: str
    fix: Fix | None
    loop: HotLoop | None


class ScanSummary(Record, frozen=True, kw_only=True):
    files: int
    """That were read, of those that were given."""
    skipped: int
    """In which nothing can be found."""
    unreadable: dict[str, str]
    """With the reason."""
    codes: dict[str, int]
    severities: dict[Severity, int]


class ScanReport(Record, frozen=True, kw_only=True):
    version: Literal[1] = 1
    findings: tuple[CodeFinding, ...]
    summary: ScanSummary
