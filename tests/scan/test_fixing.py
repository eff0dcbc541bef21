"""Which fixes are put into a text, and when none is."""

import ast
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from hasten.records.scan import CodeFinding, Edit, Fix, Safety
from hasten.scan.edits import remove_statement
from hasten.scan.fixing import ROUNDS, Fixed, fix_texts
from hasten.scan.lines import Lines
from hasten.scan.patch import difference

PATH = "a.py"


def finding(
    text: str, old: str, new: str | None, safety: Safety = "safe", group: str = ""
) -> CodeFinding:
    """That puts ``new`` in place of ``old``; None for one without a fix."""
    lines = Lines(text)
    start = text.index(old)
    edit = lines.edit(start, start + len(old), new or "")
    fix = Fix(safety=safety, about="", edits=(edit,)) if new is not None else None
    return CodeFinding(
        code="HST999", name="a-b", path=PATH, line=edit.line, column=edit.column,
        end_line=edit.end_line, end_column=edit.end_column, severity="low", message="", why="",
        fix=fix, loop=None, group=group,
    )  # fmt: skip


def fixed(text: str, *findings: CodeFinding, unsafe: bool = False) -> Fixed:
    """Nothing is found any more once it was fixed."""
    return fix_texts({PATH: text}, findings, lambda changed: (), unsafe=unsafe)


def test_a_safe_fix_is_made() -> None:
    found = fixed("a = 1\nb = 2\n", finding("a = 1\nb = 2\n", "2", "3"))
    assert found.texts == {PATH: "a = 1\nb = 3\n"}
    assert len(found.findings) == 1


def test_an_unsafe_fix_is_made_only_when_it_is_asked_for() -> None:
    unsafe = finding("a = 1", "1", "2", "unsafe")
    assert fixed("a = 1", unsafe).texts == {}
    assert fixed("a = 1", unsafe, unsafe=True).texts == {PATH: "a = 2"}


def test_what_is_only_displayed_is_never_made() -> None:
    assert fixed("a = 1", finding("a = 1", "1", "2", "display"), unsafe=True).texts == {}


@pytest.mark.parametrize("other", [(None, "safe"), ("3", "unsafe"), ("3", "display")])
def test_a_group_is_fixed_as_a_whole_or_not_at_all(other: tuple[str | None, Safety]) -> None:
    text = "a, b = 1, 2"
    one = finding(text, "1", "9", group="loop")
    assert fixed(text, one, finding(text, "2", *other, group="loop")).texts == {}
    assert fixed(text, one, finding(text, "2", *other, group="else")).texts == {PATH: "a, b = 9, 2"}
    assert fixed(text, one, finding(text, "2", "8", group="loop")).texts == {PATH: "a, b = 9, 8"}


def test_two_fixes_of_the_same_text_are_not_both_made() -> None:
    text = "a = f(1)"
    found = fixed(text, finding(text, "f(1)", "g(1)"), finding(text, "1", "2"))
    assert found.texts == {PATH: "a = g(1)"}
    assert len(found.findings) == 1


def test_a_group_that_clashes_with_itself_is_left() -> None:
    text = "a = f(1)"
    two = [finding(text, "f(1)", "g(1)", group="x"), finding(text, "1", "2", group="x")]
    assert fixed(text, *two).texts == {}


def test_an_edit_that_two_fixes_share_is_made_once() -> None:
    text = "a = 1\nb = 2"
    found = fixed(text, *(finding(text, "1", "3") for _ in range(2)))
    assert found.texts == {PATH: "a = 3\nb = 2"}
    assert len(found.findings) == 2


def test_a_fix_that_leaves_no_python_is_not_made() -> None:
    text = "a, b = 1, 2"
    broken = finding(text, "2", "(")
    alone = fixed(text, broken)
    assert (alone.texts, alone.findings) == ({}, [])
    assert alone.refused == {PATH: "its fixes would leave no Python"}
    assert fixed(text, finding(text, "1", "3"), broken).texts == {PATH: "a, b = 3, 2"}


def test_fixes_that_only_together_leave_no_python_are_made_one_by_one() -> None:
    def look(changed: Mapping[str, str]) -> Sequence[CodeFinding]:
        text = changed[PATH]
        body = ast.parse(text).body[0].body  # type: ignore[attr-defined]
        edits = [remove_statement(Lines(text), each, body) for each in body]
        found = finding(text, "a", "")
        return [
            msgspec.structs.replace(found, fix=Fix(safety="safe", about="", edits=(each,)))
            for each in edits
            if each is not None and each.text != "pass"
        ]

    text = "if a:\n    b()\n    c()\n"
    found = fix_texts({PATH: text}, look({PATH: text}), look)
    assert found.texts == {PATH: "if a:\n    c()\n"}


def test_what_a_fix_uncovers_is_fixed_too() -> None:
    def look(changed: Mapping[str, str]) -> Sequence[CodeFinding]:
        text = changed[PATH]
        return (finding(text, "2", "3"),) if "2" in text else ()

    found = fix_texts({PATH: "a = 1"}, (finding("a = 1", "1", "2"),), look)
    assert found.texts == {PATH: "a = 3"}
    assert len(found.findings) == 2
    assert found.left == ()


def test_a_file_whose_fixes_come_to_no_end_is_left() -> None:
    def look(changed: Mapping[str, str]) -> Sequence[CodeFinding]:
        text = changed[PATH]
        return (finding(text, "a", "aa"),)

    found = fix_texts({PATH: "a = 1"}, look({PATH: "a = 1"}), look)
    assert (found.texts, found.findings) == ({}, [])
    assert found.refused == {PATH: f"its fixes come to no end in {ROUNDS} rounds"}


def test_a_place_that_is_not_there_is_an_error() -> None:
    for line, column in ((3, 1), (1, 9), (0, 1), (1, 0)):
        edit = Edit(line=line, column=column, end_line=line, end_column=column, text="")
        with pytest.raises(ValueError, match=r"there is no line|has no column"):
            Lines("a = 1\nb").span(edit)


def test_the_difference_names_the_missing_newline() -> None:
    assert difference("a.py", "a\nb", "a\nc") == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a\n-b\n"
        "\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
