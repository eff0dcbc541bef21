"""What a scan found as SARIF 2.1.0, which forges and editors read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hasten import __version__
from hasten.records.record import digest_of
from hasten.records.scan import CodeFinding, Fix, RuleInWords, ScanReport, Severity
from hasten.report.scan import RUNS

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: dict[Severity, str] = {
    "high": "warning",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
RANKS: dict[Severity, float] = {"high": 90.0, "medium": 60.0, "low": 30.0, "info": 10.0}
"""Of 100, by which viewers sort."""


def scan_sarif(report: ScanReport, rules: Mapping[str, RuleInWords]) -> dict[str, Any]:
    """``rules`` by their codes."""
    looked_for = [rules[code] for code in report.summary.rules]
    numbers = {rule.code: number for number, rule in enumerate(looked_for)}
    run = {
        "tool": {
            "driver": {
                "name": "hasten",
                "semanticVersion": __version__,
                "rules": [_rule(each) for each in looked_for],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": _notifications(report)}
        ],
        "results": _results(report.findings, numbers),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: RuleInWords) -> dict[str, Any]:
    title = rule.name.replace("-", " ").capitalize()
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{title}."},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why} {rule.instead}",
            "markdown": f"{rule.why}\n\n{rule.instead}\n\nRisk: {rule.risk}.",
        },
        "defaultConfiguration": {"level": "warning", "enabled": rule.default},
        "properties": {"tags": ["performance", rule.family]},
    }


def _results(findings: Sequence[CodeFinding], numbers: dict[str, int]) -> list[dict[str, Any]]:
    """With fingerprints that stay where lines above are added or taken out; those that say the
    same of one file are told apart by their order."""
    seen: Counter[str] = Counter()
    results = []
    for each in findings:
        said = digest_of([each.code, each.path, each.message])[:32]
        seen[said] += 1
        fingerprint = {"partialFingerprints": {"hasten/v1": f"{said}:{seen[said]}"}}
        results.append(_result(each, numbers[each.code]) | fingerprint)
    return results


def _result(finding: CodeFinding, number: int) -> dict[str, Any]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    result = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": LEVELS[finding.severity],
        "rank": RANKS[finding.severity],
        "message": {"text": f"{finding.message}{_link(finding)}."},
        "locations": [{"physicalLocation": _at(finding.path, region)}],
    }
    if finding.loop is not None:
        place = finding.loop.place
        result["relatedLocations"] = [
            {
                "id": 1,
                "physicalLocation": _at(place.path, {"startLine": place.line}),
                "message": {"text": f"Runs {RUNS[finding.loop.runs]}: {finding.loop.words}."},
            }
        ]
    if finding.fix is not None and finding.fix.edits:
        result["fixes"] = [_fix(finding.path, finding.fix)]
    return result


def _link(finding: CodeFinding) -> str:
    """To the related location: GitHub shows only those that the message links to."""
    return "" if finding.loop is None else f" ([{RUNS[finding.loop.runs]}](1))"


def _fix(path: str, fix: Fix) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {
                "startLine": edit.line,
                "startColumn": edit.column,
                "endLine": edit.end_line,
                "endColumn": edit.end_column,
            },
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    return {
        "description": {"text": fix.about},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _at(path: str, region: dict[str, int]) -> dict[str, Any]:
    return {"artifactLocation": _artifact(path), "region": region}


def _artifact(path: str) -> dict[str, str]:
    """As a URI; relative ones are relative to the root of the sources."""
    if path.startswith("/"):
        return {"uri": f"file://{quote(path)}"}
    return {"uri": quote(path), "uriBaseId": "%SRCROOT%"}


def _notifications(report: ScanReport) -> list[dict[str, Any]]:
    unread = [
        {
            "level": "warning",
            "message": {"text": f"Not read: {why}."},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(path)}}],
        }
        for path, why in report.summary.unreadable.items()
    ]
    remarks = [
        {
            "level": "note",
            "message": {"text": each.message},
            "locations": [{"physicalLocation": _at(each.path, {"startLine": each.line})}],
        }
        for each in report.summary.remarks
    ]
    return unread + remarks
