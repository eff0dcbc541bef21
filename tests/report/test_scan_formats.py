"""What a scan found, in every format that it is told in."""

import io
import json
import re
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from hasten.records.finding import Place
from hasten.records.record import to_json
from hasten.records.scan import (
    CodeFinding,
    Edit,
    Fix,
    HotLoop,
    Remark,
    RuleInWords,
    ScanReport,
    ScanSummary,
    Severity,
    Spared,
)
from hasten.report.scan import by_loop, scan_card
from hasten.report.scan_github import scan_annotations
from hasten.report.scan_markdown import fenced, scan_markdown, spans
from hasten.report.scan_sarif import scan_sarif


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
        "rules": ("HST101", "HST201"),
        "spared": (),
        "remarks": (),
    }
    return ScanReport(findings=findings, summary=ScanSummary(**{**facts, **summary}))


def source(path: str, first: int, last: int) -> Sequence[str]:
    return [f"        line {number} of {path}" for number in range(first, last + 1)]


def shown(of: ScanReport) -> list[str]:
    page = io.StringIO()
    Console(file=page, width=80, highlight=False).print(scan_card(of, source), crop=False)
    return [line.rstrip() for line in page.getvalue().splitlines()]


# Text


def test_findings_stand_under_their_loops_the_most_expensive_first() -> None:
    cheap = finding("a.py", 20, loop=10, severity="low")
    dear = finding("b.py", 30, loop=25, severity="high")
    often = [finding("c.py", line, loop=1) for line in (2, 3)]
    alone = finding("d.py", 4, loop=None, severity="high")
    groups = by_loop([cheap, *often, dear, alone])
    assert [group.findings[0].path for group in groups] == ["b.py", "c.py", "a.py", "d.py"]
    assert groups[-1].loop is None


def test_a_terminal_is_told_the_loop_the_place_and_the_line() -> None:
    lines = shown(report(finding()))
    assert lines[0] == "train.py:5  every step: line 5 of train.py"
    assert lines[1] == "  train.py:9:18  HST201 medium  `loss.item()` waits for the device"
    assert lines[2] == "    line 9 of train.py"
    assert "1 finding in 1 of 3 files: 1 medium." in lines
    assert lines[-1] == "hasten explain HST201 says why, and what to write instead."


def test_nothing_found_is_a_line() -> None:
    assert shown(report()) == ["Nothing found in 3 files."]


def test_control_characters_drive_no_terminal() -> None:
    bad = "\x1b[31m.py"
    page = "\n".join(shown(report(finding(bad, message="\x1b]0;x"), unreadable={bad: "\x07"})))
    assert "\x1b" not in page
    assert "\x07" not in page


def test_notes_are_told_and_cut_short() -> None:
    unreadable = {f"{number}.py": "line 1: invalid syntax" for number in range(30)}
    remarks = (Remark(path="a.py", line=3, message="rule 'HST999' is not known."),)
    lines = shown(report(unreadable=unreadable, remarks=remarks))
    assert lines[1] == "note: a.py:3: rule 'HST999' is not known."
    assert lines[2] == "note: not read: 0.py: line 1: invalid syntax"
    assert lines[-1] == "note: and 21 more such notes; --json has them all"


# GitHub


def test_an_annotation_names_file_line_and_title() -> None:
    assert scan_annotations(report(finding())) == (
        "::warning file=train.py,line=9,endLine=9,col=18,title=HST201 item-in-hot-loop"
        "::`loss.item()` waits for the device. It waits.\n"
    )


def test_annotations_are_escaped_as_github_reads_them() -> None:
    written = scan_annotations(report(finding("a,b:c%.py", message="50 %\r\n::error::x")))
    (line,) = written.splitlines()
    assert line.startswith("::warning file=a%2Cb%3Ac%25.py,line=9,")
    assert line.endswith("::50 %25%0D%0A::error::x. It waits.")


@pytest.mark.parametrize(
    ("severity", "level"),
    [("high", "warning"), ("medium", "warning"), ("low", "notice"), ("info", "notice")],
)
def test_severities_have_levels(severity: Severity, level: str) -> None:
    found = report(finding(severity=severity))
    assert scan_annotations(found).startswith(f"::{level} ")


# SARIF

TEXT = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": {"type": "string"}, "markdown": {"type": "string"}},
}
REGION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["startLine"],
    "properties": {
        name: {"type": "integer", "minimum": 1}
        for name in ("startLine", "startColumn", "endLine", "endColumn")
    },
}
ARTIFACT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["uri"],
    "properties": {
        "uri": {"type": "string", "pattern": r"^[A-Za-z0-9._~:/%!$&'()*+,;=@-]+$"},
        "uriBaseId": {"const": "%SRCROOT%"},
    },
}
LOCATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["physicalLocation"],
    "properties": {
        "id": {"type": "integer", "minimum": -1},
        "message": TEXT,
        "physicalLocation": {
            "type": "object",
            "additionalProperties": False,
            "required": ["artifactLocation"],
            "properties": {"artifactLocation": ARTIFACT, "region": REGION},
        },
    },
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
REPLACEMENT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["deletedRegion"],
    "properties": {"deletedRegion": REGION, "insertedContent": TEXT},
}
SARIF = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "additionalProperties": False,
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "name": {"type": "string", "pattern": r"^\w+$"},
                                                "shortDescription": TEXT,
                                                "fullDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "additionalProperties": False,
                                                    "properties": {
                                                        "level": LEVEL,
                                                        "enabled": {"type": "boolean"},
                                                    },
                                                },
                                                "properties": {
                                                    "type": "object",
                                                    "properties": {
                                                        "tags": {
                                                            "type": "array",
                                                            "uniqueItems": True,
                                                            "items": {"type": "string"},
                                                        }
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["executionSuccessful"],
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["message"],
                                        "properties": {
                                            "level": LEVEL,
                                            "message": TEXT,
                                            "locations": {"type": "array", "items": LOCATION},
                                        },
                                    },
                                },
                            },
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["message"],
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": -1},
                                "level": LEVEL,
                                "rank": {"type": "number", "minimum": -1, "maximum": 100},
                                "message": TEXT,
                                "locations": {"type": "array", "items": LOCATION},
                                "relatedLocations": {"type": "array", "items": LOCATION},
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "fixes": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["artifactChanges"],
                                        "properties": {
                                            "description": TEXT,
                                            "artifactChanges": {
                                                "type": "array",
                                                "minItems": 1,
                                                "items": {
                                                    "type": "object",
                                                    "additionalProperties": False,
                                                    "required": [
                                                        "artifactLocation",
                                                        "replacements",
                                                    ],
                                                    "properties": {
                                                        "artifactLocation": ARTIFACT,
                                                        "replacements": {
                                                            "type": "array",
                                                            "minItems": 1,
                                                            "items": REPLACEMENT,
                                                        },
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What SARIF 2.1.0 demands of the parts of it that are written here, in our own words: the schema
of its standard is not ours to copy."""


def sarif(of: ScanReport) -> dict[str, Any]:
    """As it is written, checked."""
    document = json.loads(to_json(scan_sarif(of, RULES)))
    jsonschema.validate(document, SARIF)
    run: dict[str, Any] = document["runs"][0]
    return run


def test_a_result_names_rule_place_and_loop() -> None:
    run = sarif(report(finding()))
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "HST201"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 9, "startColumn": 18, "endLine": 9}
    assert result["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 5}


def test_paths_are_uris() -> None:
    run = sarif(report(finding("a b/\N{GREEK SMALL LETTER ALPHA}#.py"), finding("/root/a.py")))
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"] for each in run["results"]]
    assert uris == [
        {"uri": "a%20b/%CE%B1%23.py", "uriBaseId": "%SRCROOT%"},
        {"uri": "file:///root/a.py"},
    ]


def test_fingerprints_stay_where_lines_move_and_differ_where_places_do() -> None:
    def prints(*lines: int) -> list[str]:
        run = sarif(report(*(finding(line=line) for line in lines)))
        return [each["partialFingerprints"]["hasten/v1"] for each in run["results"]]

    assert prints(9, 12) == prints(10, 13)
    assert len(set(prints(9, 12))) == 2


def test_edits_are_fixes_and_files_that_were_not_read_notifications() -> None:
    edit = Edit(line=9, column=1, end_line=9, end_column=5, text="x")
    fix = Fix(safety="safe", about="Write x.", edits=(edit,))
    run = sarif(report(finding(fix=fix), unreadable={"a.py": "line 1: invalid syntax"}))
    (change,) = run["results"][0]["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "x"}
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "Not read: line 1: invalid syntax."


# Markdown


def test_markdown_is_a_plan_of_work() -> None:
    spared = (
        Spared(code="HST201", path="a.py", line=3, reason="seldom"),
        Spared(code="HST201", path="b.py", line=4, reason="ignored"),
    )
    found = report(finding(), finding("b.py", severity="high"), spared=spared)
    text = scan_markdown(found, RULES, source)
    titles = re.findall(r"^#+ .+$", text, re.MULTILINE)
    assert titles == [
        "# What costs time and memory",
        "## Phase 1: what runs more than once in a step, or costs most",
        "### HST201 item-in-hot-loop (1 place)",
        "## Phase 2: what runs every step",
        "### HST201 item-in-hot-loop (1 place)",
        "## Already right",
        "## Not to be changed",
    ]
    for fact in ("Why", "Fix", "Effort", "Risk", "Verify"):
        assert f"- **{fact}**: " in text
    assert "`train.py:9`: `loss.item()` waits for the device (`train.py:5`, every step: " in text
    assert "```python\nline 9 of train.py\n```" in text
    assert "- HST101 item-in-hot-loop" in text
    assert "- HST201 `a.py:3`" in text
    assert "- HST201 `b.py:4`" in text


def test_what_is_risky_is_not_to_be_changed_without_a_look() -> None:
    rules = {**RULES, "HST201": rule(risk="other numbers")}
    text = scan_markdown(report(finding()), rules, source)
    assert "Not without a look at what else it changes:\n\n- HST201" in text


def test_markdown_of_nothing_says_so() -> None:
    text = scan_markdown(report(), RULES, source)
    assert text.startswith("# What costs time and memory\n\nNothing found in 3 files.\n")
    assert "Phase" not in text


def test_code_of_users_stays_code() -> None:
    assert fenced(["x = '```'"]) == "````python\nx = '```'\n````"
    assert spans("`a[0]` and *this* <b>") == r"`a[0]` and \*this\* &lt;b>"
