"""What a scan found, as annotations of a pull request."""

import pytest

from hasten.records.scan import Severity
from hasten.report.scan_github import scan_annotations
from scan_reports import finding, report


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
