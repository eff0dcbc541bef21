"""What a scan found, as a plan of work."""

import re

from hasten.records.scan import Spared
from hasten.report.scan_markdown import fenced, scan_markdown, spans
from scan_reports import RULES, finding, report, rule, source


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
