"""Every fix that a rule makes in its own examples."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from hasten import gallery
from hasten.records.scan import CodeFinding, Edit
from hasten.scan.analysis import analyse
from hasten.scan.fixing import Fixed, fix_texts
from hasten.scan.lines import Lines
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.patch import patched, spans
from hasten.scan.registry import all_rules
from hasten.scan.rule import Rule

PATH = "example.py"


def findings(rule: Rule, text: str) -> list[CodeFinding]:
    analysis = analyse(text, Rules.of([rule]))
    assert not analysis.failure, analysis.failure
    return Tree({PATH: analysis}).findings({rule.code: rule})


def fixed(rule: Rule, text: str) -> Fixed:
    def look(changed: Mapping[str, str]) -> Sequence[CodeFinding]:
        return findings(rule, changed[PATH])

    return fix_texts({PATH: text}, findings(rule, text), look, unsafe=True)


FIXABLE = [
    pytest.param(rule, example, id=f"{rule.code}-{number}")
    for rule in all_rules()
    for number, example in enumerate(rule.examples)
    if fixed(rule, example).texts
]
FIXED = (
    "HST103", "HST201", "HST207", "HST208", "HST217", "HST301", "HST402", "HST406", "HST425",
    "HST426", "HST901",
)  # fmt: skip


def test_every_rule_that_fixes_shows_it_in_an_example() -> None:
    assert sorted({each.values[0].code for each in FIXABLE}) == list(FIXED)  # type: ignore[union-attr]


def statements(text: str) -> list[ast.stmt]:
    """Those that hold no others, in order."""
    found = [
        each
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.stmt) and not hasattr(each, "body")
    ]
    return sorted(found, key=lambda each: (each.lineno, each.col_offset))


def untouched(text: str, edits: Sequence[Edit]) -> list[str]:
    return [
        ast.dump(each)
        for each in statements(text)
        if all(
            each.lineno > edit.end_line or (each.end_lineno or each.lineno) < edit.line
            for edit in edits
        )
    ]


@pytest.mark.parametrize(("rule", "example"), FIXABLE)
def test_a_fix_silences_its_finding_and_changes_nothing_else(rule: Rule, example: str) -> None:
    before = findings(rule, example)
    for each in before:
        if each.fix is None or not each.fix.edits:
            continue
        after = patched(example, spans(Lines(example), each.fix.edits))
        told = [one.message for one in findings(rule, after)]
        assert told.count(each.message) < [one.message for one in before].count(each.message)
        still = iter([ast.dump(each) for each in statements(after)])
        assert all(one in still for one in untouched(example, each.fix.edits)), "in this order"
        assert each.fix.about.endswith(".")


@pytest.mark.parametrize(("rule", "example"), FIXABLE)
def test_a_second_run_changes_nothing(rule: Rule, example: str) -> None:
    once = fixed(rule, example)
    assert not once.refused
    again = fixed(rule, once.texts[PATH])
    assert (again.texts, again.findings, again.refused) == ({}, [], {})


def all_findings(changed: Mapping[str, str]) -> list[CodeFinding]:
    rules = {rule.code: rule for rule in all_rules()}
    analyses = {path: analyse(text, Rules.of(rules.values())) for path, text in changed.items()}
    return Tree(analyses).findings(rules)


SCRIPTS = [
    pytest.param(path.read_text(encoding="utf-8"), id=path.parent.name)
    for path in Path(gallery.__path__[0]).glob("*/naive.py")
]
EXAMPLES = [pytest.param(each.values[1], id=each.id) for each in FIXABLE]


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
@pytest.mark.parametrize("text", [*EXAMPLES, *SCRIPTS])
def test_no_fix_makes_a_finding(text: str, unsafe: bool) -> None:
    before = all_findings({PATH: text})
    left = fix_texts({PATH: text}, before, all_findings, unsafe=unsafe).left
    assert not Counter(each.code for each in left) - Counter(each.code for each in before)


LAYOUTS: dict[str, Callable[[str], str]] = {
    "tabs": lambda text: re.sub(r"(?m)^ +", lambda space: "\t" * (len(space[0]) // 4), text),
    "two spaces": lambda text: re.sub(r"(?m)^ +", lambda space: space[0][::2], text),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "no newline at the end": str.rstrip,
    "letters of two bytes": lambda text: re.sub(r"\bx\b", "é", text),
    "a form feed": lambda text: "\f\n" + text,
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("rule", "example"), FIXABLE)
def test_a_fix_keeps_to_the_layout(rule: Rule, example: str, layout: Callable[[str], str]) -> None:
    after, expected = fixed(rule, layout(example)).texts[PATH], fixed(rule, example).texts[PATH]
    if layout is str.rstrip:
        after = after.rstrip()  # the line before one that is removed keeps its end
    assert after == layout(expected)


WAIT = "torch.cuda.synchronize()"


def waiting(body: str) -> str:
    head = "import torch\n\ndef train(model, loader, a, b):\n    for x, y in loader:\n"
    lines = ["torch.sum(model(x, y)).backward()", *body.splitlines(), "model.step()"]
    return head + "".join(f"        {line}\n" for line in lines if line)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (WAIT, ""),
        (f"if a:\n    {WAIT}", ""),
        (f"try:\n    {WAIT}\nexcept RuntimeError:\n    pass", ""),
        (f"if a:\n    try:\n        {WAIT}\n    except RuntimeError:\n        print(x)", ""),
        (f"try:\n    b()\n    {WAIT}\nfinally:\n    a()", "try:\n    b()\nfinally:\n    a()"),
        (f"try:\n    {WAIT}\nfinally:\n    a()", None),
        (f"try:\n    a()\nfinally:\n    {WAIT}", None),
        (f"try:\n    {WAIT}\nexcept RuntimeError:\n    pass\nelse:\n    a()", None),
        (f"if a:\n    b()\nelse:\n    {WAIT}", None),
        (f"if a:\n    {WAIT}\nelif b:\n    b()", None),
        (f"if a:\n    b()\nelif b:\n    {WAIT}", None),
        (f"with a:\n    {WAIT}", None),
    ],
)
def test_a_call_is_left_out_with_all_that_is_there_for_it(body: str, left: str | None) -> None:
    (rule,) = (each for each in all_rules() if each.code == "HST217")
    assert findings(rule, waiting(body)), "nothing is found here at all"
    after = {} if left is None else {PATH: waiting(left)}
    assert fixed(rule, waiting(body)).texts == after
