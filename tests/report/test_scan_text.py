"""What a scan found, on a terminal."""

import io

from rich.console import Console

from hasten.records.scan import Remark, ScanReport
from hasten.report.scan import by_loop, scan_card
from scan_reports import finding, report, source


def shown(of: ScanReport) -> list[str]:
    page = io.StringIO()
    Console(file=page, width=80, highlight=False).print(scan_card(of, source), crop=False)
    return [line.rstrip() for line in page.getvalue().splitlines()]


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


def test_a_long_line_of_code_is_cut_and_says_so() -> None:
    page = io.StringIO()
    console = Console(file=page, width=20, highlight=False)
    console.print(scan_card(report(finding()), source), crop=False)
    assert "    line 9 of train…" in page.getvalue().splitlines()
