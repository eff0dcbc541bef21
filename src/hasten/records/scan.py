"""What a scan of source code found, as it is written to JSON."""

from typing import Literal

from hasten.records.environment import Environment
from hasten.records.finding import Place
from hasten.records.record import Record
from hasten.records.verdict import Control, NumericsClaim, SpeedClaim

Severity = Literal["high", "medium", "low", "info"]
Safety = Literal["safe", "unsafe", "display"]
"""Safe: the program does the same. Unsafe: look at it first. Display: to be written by hand."""
FixOutcome = Literal[
    "kept", "not_faster", "slower", "not_the_same", "not_proven", "not_run", "not_tried"
]
"""Of fixes that are to be proven. Only those that are kept are written."""


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
    end_column: int
    """Of the first character that is no more of it."""
    severity: Severity
    message: str
    why: str
    fix: Fix | None
    loop: HotLoop | None
    group: str = ""
    """Findings of one file and group are fixed all or none; empty where it stands alone."""


class CodeCost(Record, frozen=True, kw_only=True):
    """A finding in code that was also measured. None where nothing was at its line."""

    finding: CodeFinding
    cost_s: float | None
    """Seconds of a step that the host waits there for the device."""
    held_bytes: int | None
    """Of tensors that were made there, alive at the peak of a step."""


class Spared(Record, frozen=True, kw_only=True):
    """A place like those of the findings that is left alone."""

    code: str
    path: str
    line: int
    reason: Literal["seldom", "ignored"]
    """"seldom": it does not run often enough to matter; "ignored": a comment says so."""


class Remark(Record, frozen=True, kw_only=True):
    """Something that is wrong with what was said to the scanner in a file."""

    path: str
    line: int
    message: str


class ScanSummary(Record, frozen=True, kw_only=True):
    files: int
    """That were read, of those that were given."""
    skipped: int
    """In which nothing can be found."""
    unreadable: dict[str, str]
    """With the reason."""
    codes: dict[str, int]
    severities: dict[Severity, int]
    rules: tuple[str, ...]
    """Codes of those that were looked for."""
    met: tuple[str, ...]
    """Of these, whose subject is surely in the code: a call or a setting that only they and their
    like are about. Of others it is not known."""
    spared: tuple[Spared, ...]
    remarks: tuple[Remark, ...]


class ScanReport(Record, frozen=True, kw_only=True):
    version: Literal[1] = 1
    findings: tuple[CodeFinding, ...]
    summary: ScanSummary


class RuleInWords(Record, frozen=True, kw_only=True):
    """What is to be known of a rule."""

    code: str
    name: str
    family: str
    why: str
    instead: str
    effort: str
    risk: str
    verify: str
    worth: str
    """What was measured; empty where nothing was."""
    default: bool
    """Whether it is looked for unasked."""
    found: str
    """A file of which the marked lines are findings."""
    fine: str
    """A file like it in which nothing is found."""


class AppliedFix(Record, frozen=True, kw_only=True):
    code: str
    path: str
    line: int
    """As the file was when it was fixed; in a later round it may have been changed before."""
    safety: Safety
    about: str


class FixTrial(Record, frozen=True, kw_only=True):
    """Fixes that were held against the training without them."""

    fixes: tuple[AppliedFix, ...]
    together: bool
    """All that the task runs; else one group, on top of those that were kept before it."""
    outcome: FixOutcome
    why: str
    numerics: NumericsClaim | None = None
    speed: SpeedClaim | None = None


class FixProof(Record, frozen=True, kw_only=True):
    """What became of fixes that had to leave a training the same and make it faster."""

    task: str
    trials: tuple[FixTrial, ...]
    environment: Environment | None = None
    """None where there was nothing to fix, and the task was not run."""
    control: Control | None = None
    """The task against itself, as it was: what difference is none. None where nothing was timed."""


class FixReport(Record, frozen=True, kw_only=True):
    """What was changed, or would be."""

    version: Literal[1] = 1
    fixed: tuple[AppliedFix, ...]
    differences: dict[str, str]
    """Of each file that changes, as a unified diff."""
    refused: dict[str, str]
    """Files that are left as they are, and why."""
    written: bool
    """False where the differences were only asked for."""
    unsafe: int
    """Fixes that were not made because nobody asked for unsafe ones."""
    held_back: int
    """Fixes that were not made because others of their group cannot be."""
    left: tuple[CodeFinding, ...]
    """What is still found."""
    proof: FixProof | None = None
    """Where only fixes that are proven were to be made."""
