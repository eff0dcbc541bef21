"""Reads the Python files under some paths and says what in them costs time or memory."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from hasten.records.scan import ScanReport, ScanSummary
from hasten.scan.analysis import Analysis, Rules, analyse
from hasten.scan.files import python_files, read_text
from hasten.scan.link import Tree
from hasten.scan.registry import all_rules
from hasten.scan.rule import Rule

MATTERS = ("torch", "pandas", "numpy", "lightning")
"""A file in which none of these words stands has nothing to find."""


def scan(paths: Sequence[Path], rules: Iterable[Rule] | None = None) -> ScanReport:
    chosen = [each for each in all_rules() if each.default] if rules is None else list(rules)
    looked = Rules.of(chosen)
    analyses: dict[str, Analysis] = {}
    unreadable: dict[str, str] = {}
    files = python_files(paths)
    for path in files:
        name = path.as_posix()
        text, failure = read_text(path)
        if text is None:
            unreadable[name] = failure
        elif any(word in text for word in MATTERS):
            analyses[name] = analyse(text, looked)
            if analyses[name].failure:
                unreadable[name] = analyses[name].failure
    findings = Tree(analyses).findings({each.code: each for each in chosen})
    findings.sort(key=lambda each: (each.path, each.line, each.column, each.code))
    return ScanReport(
        findings=tuple(findings),
        summary=ScanSummary(
            files=len(analyses),
            skipped=len(files) - len(analyses),
            unreadable=unreadable,
            codes=dict(sorted(Counter(each.code for each in findings).items())),
            severities=dict(Counter(each.severity for each in findings)),
        ),
    )
