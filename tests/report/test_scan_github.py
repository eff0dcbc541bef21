"""What a scan found, as annotations of a pull request."""

import re
from typing import NamedTuple

import msgspec
import pytest

from hasten.records.scan import Severity
from hasten.report.scan_github import scan_annotations
from scan_reports import finding, report

HOSTILE = [
    "a,b:c%.py",
    "50 %25%0A\r\n::error file=x,line=1::y.py",
    "::stop-commands::x",
    "a=b,title=c::d",
    "##[error]\N{GREEK SMALL LETTER ALPHA} b.py",
]
COMMAND = re.compile(r"::(\w+) (.*?)::(.*)")


class Read(NamedTuple):
    level: str
    properties: dict[str, str]
    message: str


def read(line: str) -> Read:
    """A command as GitHub's runner reads it: the properties end at the first two colons, are
    parted at commas and split at the first sign of equality."""
    assert "\r" not in line
    found = COMMAND.fullmatch(line)
    assert found is not None
    pairs = (each.split("=", 1) for each in found[2].split(","))
    return Read(found[1], {name: unescaped(text) for name, text in pairs}, unescaped(found[3]))


def unescaped(text: str) -> str:
    """The percent sign last, as what it was escaped from came first."""
    for escape, sign in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}.items():
        text = text.replace(escape, sign)
    return text


def test_an_annotation_names_file_line_and_title() -> None:
    assert scan_annotations(report(finding())) == (
        "::warning file=train.py,line=9,endLine=9,col=18,endColumn=29,title=HST201 item-in-hot-loop"
        "::`loss.item()` waits for the device. It waits.\n"
    )


def test_columns_are_told_of_one_line_only() -> None:
    several = msgspec.structs.replace(finding(), end_line=12)
    assert "::warning file=train.py,line=9,endLine=12,title=" in scan_annotations(report(several))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_annotation_is_one_command_whatever_is_in_it(hostile: str) -> None:
    written = scan_annotations(
        report(finding(hostile, message=hostile), unreadable={hostile: hostile})
    )
    found, unread = map(read, written.split("\n")[:-1])
    assert found.level == "warning"
    assert found.properties["file"] == unread.properties["file"] == hostile
    assert found.properties["line"] == "9"
    assert found.message == f"{hostile}. It waits."
    assert unread.message == f"not read: {hostile}"


def test_control_characters_do_not_reach_a_terminal() -> None:
    hostile = "a\x1b[31m\x07.py"
    written = scan_annotations(report(finding(hostile), unreadable={hostile: hostile}))
    assert written.replace("\n", "").isprintable()
    assert "file=a?[31m?.py" in written


@pytest.mark.parametrize(
    ("severity", "level"),
    [("high", "warning"), ("medium", "warning"), ("low", "notice"), ("info", "notice")],
)
def test_severities_have_levels(severity: Severity, level: str) -> None:
    found = report(finding(severity=severity))
    assert scan_annotations(found).startswith(f"::{level} ")
