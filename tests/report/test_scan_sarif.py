"""What a scan found, as SARIF, held to the schema of its standard (sarif/README.md)."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hasten.records.record import to_json
from hasten.records.scan import Edit, Fix, Remark, ScanReport, Severity
from hasten.report.scan_sarif import scan_sarif
from hasten.scan.words import rules_in_words
from scan_reports import RULES, finding, report

FOLDER = Path(__file__).parent / "sarif"
TEXT = (FOLDER / "sarif-schema-2.1.0.json").read_bytes()
SCHEMA = jsonschema.Draft7Validator(json.loads(TEXT))
ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
URI = r"[A-Za-z0-9._~:/%!$&'()*+,;=@-]+"
"""The characters that one may have: the validator has no word on them."""
FIX = Fix(
    safety="safe",
    about="Write x.",
    edits=(Edit(line=9, column=1, end_line=9, end_column=5, text="x"),),
)


def sarif(of: ScanReport) -> dict[str, Any]:
    """As it is written, checked."""
    document = json.loads(to_json(scan_sarif(of, RULES)))
    SCHEMA.validate(document)
    run: dict[str, Any] = document["runs"][0]
    return run


def test_the_schema_is_the_one_that_is_told_of() -> None:
    assert hashlib.sha256(TEXT).hexdigest() in (FOLDER / "README.md").read_text()
    assert json.loads(TEXT)["$id"].endswith(
        "oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json"
    )


def test_the_schema_refuses_what_is_not_sarif() -> None:
    document = scan_sarif(report(finding()), RULES)
    document["runs"][0]["results"][0]["locations"][0]["line"] = 9
    with pytest.raises(jsonschema.ValidationError, match="'line' was unexpected"):
        SCHEMA.validate(document)


@pytest.mark.parametrize("severity", ["high", "medium", "low", "info"])
def test_every_severity_is_sarif(severity: Severity) -> None:
    (result,) = sarif(report(finding(severity=severity)))["results"]
    assert result["level"] == ("warning" if severity in ("high", "medium") else "note")


@pytest.mark.parametrize(
    "found",
    [
        report(),
        report(rules=()),
        report(finding(loop=None), finding(fix=FIX), finding(fix=Fix(safety="display", about="x"))),
        report(
            unreadable={"a b.py": "line 1: invalid syntax", "\N{GREEK SMALL LETTER ALPHA}.py": "x"}
        ),
        report(remarks=(Remark(path="a b.py", line=3, message="rule 'HST999' is not known."),)),
    ],
    ids=["nothing", "no rules", "fixes", "unreadable", "remarks"],
)
def test_every_kind_of_report_is_sarif(found: ScanReport) -> None:
    assert len(sarif(found)["results"]) == len(found.findings)


def test_all_rules_are_sarif_and_as_long_as_github_takes_them() -> None:
    rules = {each.code: each for each in rules_in_words()}
    document = json.loads(to_json(scan_sarif(report(rules=tuple(rules)), rules)))
    SCHEMA.validate(document)
    for each in document["runs"][0]["tool"]["driver"]["rules"]:
        assert len(each["name"]) <= 255
        assert (
            max(len(each[part]["text"]) for part in ("shortDescription", "fullDescription")) <= 1024
        )
        assert each["help"]["text"]


def test_a_result_names_rule_place_and_loop() -> None:
    run = sarif(report(finding()))
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "HST201"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {
        "startLine": 9,
        "startColumn": 18,
        "endLine": 9,
        "endColumn": 29,
    }
    (loop,) = result["relatedLocations"]
    assert loop["physicalLocation"]["region"] == {"startLine": 5}
    assert result["message"]["text"].endswith(f" ([every step]({loop['id']})).")


def test_paths_are_uris() -> None:
    run = sarif(report(finding(f"a b/{ALPHA}#.py"), finding("/root/a.py")))
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"] for each in run["results"]]
    assert all(re.fullmatch(URI, each["uri"]) for each in uris)
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
    run = sarif(report(finding(fix=FIX), unreadable={"a.py": "line 1: invalid syntax"}))
    (change,) = run["results"][0]["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "x"}
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "Not read: line 1: invalid syntax."
