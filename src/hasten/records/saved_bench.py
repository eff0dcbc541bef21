"""What ``hasten bench --save`` keeps, and what a later run says of it."""

from pathlib import Path

import msgspec

from hasten.errors import HastenError
from hasten.records.environment import Environment
from hasten.records.measurement import Memory
from hasten.records.plan import Plan
from hasten.records.record import Record, from_json
from hasten.records.verdict import Comparison, Decision, Verdict

SAVED_FORMAT = 1
REFERENCE = 2
"""The number of the reference workload; figures in another one cannot be compared."""
REFERENCE_ARM = "reference"
LARGEST_SAVED_BYTES = 20_000_000


class SavedBench(Record, frozen=True, kw_only=True):
    """How fast B is beside A, in several pairs of processes, with every round."""

    format: int
    reference: int
    created: str
    hasten: str
    task: str
    a: str
    """"reference" where B was held against the workload that is fixed."""
    b: str
    plan_a: Plan
    plan_b: Plan
    seed: int
    environment: Environment
    pairs: tuple[Comparison, ...]
    b_memory: Memory


class Change(Record, frozen=True, kw_only=True):
    """How many times as long B takes beside A as it did when it was saved."""

    times: float
    low: float
    high: float
    confidence: float
    margin: float
    decision: Decision


class GateReport(Record, frozen=True, kw_only=True):
    """Has it become slower since it was saved?"""

    task: str
    a: str
    b: str
    file: str
    verdict: Verdict
    """On "it is no slower than it was"."""
    regression: bool
    """Whether it is proven slower by more than the margin."""
    change: Change
    environment: Environment
    pairs: tuple[Comparison, ...]
    saved_memory: Memory
    b_memory: Memory


def read_saved(path: Path) -> SavedBench:
    """A saved bench is data from anywhere: closed keys, a size limit, nothing in it is run."""
    fix = "Give the file that hasten bench --save wrote."
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_SAVED_BYTES + 1)
    except OSError as error:
        raise HastenError(f"The saved bench {path} cannot be read: {error}.", fix=fix) from error
    if len(content) > LARGEST_SAVED_BYTES:
        raise HastenError(
            f"{path} has more than {LARGEST_SAVED_BYTES:,} bytes, which no saved bench has.",
            fix=fix,
        )
    _refuse_other_numbers(content, path)
    saved = from_json(content, SavedBench, where=str(path))
    if len(saved.pairs) < 2 or not all(0 < p.low <= p.ratio <= p.high for p in saved.pairs):
        raise HastenError(f"{path} has no pairs to compare with.", fix="Save it anew.")
    return saved


def is_saved(content: bytes) -> bool:
    """Whether it looks like such a file, of any format."""
    try:
        raw = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(raw, dict) and {"format", "reference", "pairs"} <= raw.keys()


def _refuse_other_numbers(content: bytes, path: Path) -> None:
    """Asked before the keys are: another format has other ones."""
    if not is_saved(content):
        return  # what is wrong with it is said where it is decoded
    raw = msgspec.json.decode(content)
    for key, known in (("format", SAVED_FORMAT), ("reference", REFERENCE)):
        if raw[key] != known:
            raise HastenError(
                f"{path}: {key} {raw[key]!r} is not known; this Hasten has {known}.",
                fix="Save it anew with this Hasten, before the change that is to be judged.",
            )
