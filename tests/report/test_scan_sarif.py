"""What a scan found, as SARIF."""

import json
from typing import Any

import jsonschema

from hasten.records.record import to_json
from hasten.records.scan import Edit, Fix, ScanReport
from hasten.report.scan_sarif import scan_sarif
from scan_reports import RULES, finding, report

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
