"""Small reports of scans, for tests of the formats that they are told in."""

from collections.abc import Sequence
from typing import Any

from hasten.records.finding import Place
from hasten.records.scan import (
    CodeFinding,
    Fix,
    HotLoop,
    RuleInWords,
    ScanReport,
    ScanSummary,
    Severity,
)


def finding(
    path: str = "train.py",
    line: int = 9,
    *,
    loop: int | None = 5,
    severity: Severity = "medium",
    message: str = "`loss.item()` waits for the device",
    code: str = "HST201",
    fix: Fix | None = None,
) -> CodeFinding:
    return CodeFinding(
        code=code,
        name="item-in-hot-loop",
        path=path,
        line=line,
        column=18,
        end_line=line,
        end_column=29,
        severity=severity,
        message=message,
        why="It waits.",
        fix=fix,
        loop=None
        if loop is None
        else HotLoop(place=Place(path=path, line=loop), runs="step", words="this loop"),
    )


def rule(code: str = "HST201", risk: str = "none: the same") -> RuleInWords:
    return RuleInWords(
        code=code,
        name="item-in-hot-loop",
        family="host and device",
        why="It waits.",
        instead="Use `total += loss.detach()`.",
        effort="minutes",
        risk=risk,
        verify="Compare losses.",
        worth="",
        default=True,
        found="x.item()  # !",
        fine="x",
    )


RULES = {code: rule(code) for code in ("HST101", "HST201", "HST301")}


def report(*findings: CodeFinding, **summary: Any) -> ScanReport:
    codes = [each.code for each in findings]
    severities = [each.severity for each in findings]
    facts: dict[str, Any] = {
        "files": 3,
        "skipped": 0,
        "unreadable": {},
        "codes": {code: codes.count(code) for code in codes},
        "severities": {name: severities.count(name) for name in severities},
        "rules": ("HST101", "HST201", "HST301"),
        "met": ("HST101", "HST201"),
        "spared": (),
        "remarks": (),
    }
    return ScanReport(findings=findings, summary=ScanSummary(**{**facts, **summary}))


def source(path: str, first: int, last: int) -> Sequence[str]:
    return [f"        line {number} of {path}" for number in range(first, last + 1)]
