"""What a scan found, as a plan of work."""

import re

from hasten.records.scan import Fix, Spared
from hasten.report.scan_markdown import fenced, scan_markdown, spans
from scan_reports import RULES, finding, report, rule, source


def test_markdown_is_a_plan_of_work() -> None:
    found = report(finding(), finding("b.py", severity="high"))
    text = scan_markdown(found, RULES, source)
    titles = re.findall(r"^#+ .+$", text, re.MULTILINE)
    assert titles == [
        "# What costs time and memory",
        "## Phase 1: what runs more than once in a step, or costs most",
        "### HST201 item-in-hot-loop (1 place)",
        "## Phase 2: what runs every step",
        "### HST201 item-in-hot-loop (1 place)",
        "## Looked at, and nothing found",
    ]
    for fact in ("Why", "Fix", "Effort", "Risk", "Verify"):
        assert text.count(f"- **{fact}**: ") == 1
    assert "### HST201 item-in-hot-loop (1 place)\n\nAs in phase 1.\n" in text
    loop = "every step: `line 5 of train.py` (line 5)"
    assert f"`train.py:9`: `loss.item()` waits for the device; {loop}\n" in text
    assert "```python\nline 9 of train.py\n```" in text


def test_places_of_which_the_same_is_to_be_said_are_a_list() -> None:
    fix = Fix(safety="unsafe", about="Write x.")
    found = report(
        finding(fix=fix, message="the loop waits"),
        finding("b.py", loop=None, fix=fix, message="the loop waits"),
        finding("c.py", message="the loop waits"),
    )
    text = scan_markdown(found, RULES, source)
    assert (
        "The loop waits:\n\n"
        "- `train.py:9`: `line 9 of train.py`; every step: `line 5 of train.py` (line 5)\n"
        "- `b.py:9`: `line 9 of b.py`\n\n"
        "`hasten scan --fix --unsafe` does it: Write x.\n\n"
        "`c.py:9`: the loop waits; every step: "
    ) in text


def test_only_what_the_code_has_is_told_to_be_looked_at() -> None:
    text = scan_markdown(report(finding()), RULES, source)
    assert text.endswith(
        "## Looked at, and nothing found\n\n"
        "Calls or settings that these rules judge are in the code, and they found nothing:\n\n"
        "- host and device: item-in-hot-loop\n\n"
        "1 other rule found nothing; whether there was anything to find is not known.\n"
    )
    assert "Looked at" not in scan_markdown(report(met=()), RULES, source)


def test_places_that_are_left_alone_are_told_by_rule_and_cut_short() -> None:
    spared = (
        *(Spared(code="HST201", path="a.py", line=line, reason="seldom") for line in range(1, 8)),
        Spared(code="HST301", path="b.py", line=4, reason="ignored"),
    )
    text = scan_markdown(report(spared=spared), RULES, source)
    places = "`a.py:1`, `a.py:2`, `a.py:3`, `a.py:4`, and 3 more"
    assert f"- HST201 item-in-hot-loop: {places}\n" in text
    assert "meant so:\n\n- HST301 item-in-hot-loop: `b.py:4`\n" in text


def test_risks_are_told_once_each() -> None:
    rules = {
        **RULES,
        "HST201": rule(risk="other numbers"),
        "HST101": rule("HST101", "other numbers"),
    }
    text = scan_markdown(report(finding(), finding(code="HST101")), rules, source)
    risks = "- other numbers: HST201 item-in-hot-loop, HST101 item-in-hot-loop\n"
    assert f"## Look before you change\n\n{risks}" in text


def test_markdown_of_nothing_says_so() -> None:
    text = scan_markdown(report(), RULES, source)
    assert text.startswith("# What costs time and memory\n\nNothing found in 3 files.\n")
    assert "Phase" not in text


def test_code_of_users_stays_code() -> None:
    assert fenced(["x = '```'"]) == "````python\nx = '```'\n````"
    assert spans("call `f`.") == "call `f`."
    assert spans("`a | b`") == "`a | b`"
    assert spans("`a | b`", in_table=True) == r"`a \| b`"
    assert spans("`a[0]` and *this* <b>") == r"`a[0]` and \*this\* &lt;b>"
