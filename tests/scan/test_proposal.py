"""Fixes that are tried before they are written: groups, texts, all files or none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hasten.scan import rewriting
from hasten.scan.fix import survey_tree
from hasten.scan.proposal import BESIDE, Group, Proposal, is_run
from hasten.scan.rewriting import CHANGED, Source

LOOP = """
def {name}(model, loader):
    right = 0
    for x, y in loader:
        right += (model(x.cuda(non_blocking=True)) == y).sum().item()
    return right
"""
HEAD = "import torch\n"


def fixed(text: str) -> str:
    return text.replace(".sum().item()\n", ".sum()\n    right = int(right)\n")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(HEAD + LOOP.format(name="first") + LOOP.format(name="second"))
    two.write_text(HEAD + LOOP.format(name="third"))
    return one, two


def propose(files: Sequence[Path]) -> Proposal:
    from hasten.scan.settings import Project

    found = Proposal(survey_tree(files, Project(files[0].parent)), files)
    found.groups = [each for each in found.groups if each[0].code == "HST201"]
    return found


def test_each_loop_is_a_group_and_nothing_is_written(files: tuple[Path, Path]) -> None:
    before = [file.read_text() for file in files]
    found = propose(files)
    assert [(Path(each[0].path).name, each[0].line) for each in found.groups] == [
        ("one.py", 6),
        ("one.py", 12),
        ("two.py", 6),
    ]
    texts, made = found.texts(found.groups[1:])
    assert made == found.groups[1:]
    assert list(texts.values()) == [
        HEAD + LOOP.format(name="first") + fixed(LOOP.format(name="second")),
        fixed(before[1]),
    ]
    assert [file.read_text() for file in files] == before


def test_some_groups_are_written_and_the_others_are_left(files: tuple[Path, Path]) -> None:
    found = propose(files)
    report = found.finish([found.groups[0], found.groups[2]], write=True)
    one = HEAD + fixed(LOOP.format(name="first")) + LOOP.format(name="second")
    assert files[0].read_text() == one
    assert files[1].read_text() == fixed(HEAD + LOOP.format(name="third"))
    assert [each.line for each in report.fixed] == [6, 6]
    assert [each.line for each in report.left if each.code == "HST201"] == [13]


def test_what_is_only_told_is_not_written(files: tuple[Path, Path]) -> None:
    before = [file.read_text() for file in files]
    found = propose(files)
    report = found.finish(found.groups, write=False)
    assert len(report.differences) == 2
    assert not report.written
    assert [file.read_text() for file in files] == before


def test_one_file_that_has_changed_keeps_all_from_being_written(files: tuple[Path, Path]) -> None:
    found = propose(files)
    before = files[0].read_text()
    files[1].write_text(HEAD)
    report = found.finish(found.groups, write=True)
    assert {Path(path).name: why for path, why in report.refused.items()} == {
        "one.py": BESIDE,
        "two.py": CHANGED,
    }
    assert (report.fixed, report.differences) == ((), {})
    assert files[0].read_text() == before
    assert [each.code for each in report.left].count("HST201") == 3, "as they were read"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_ends_the_writing_halfway_leaves_all_as_it_was(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    found = propose(files)
    before = [file.read_text() for file in files]
    write = rewriting.write_atomically

    def fail_at_the_second(path: Path, content: bytes, *about: Any) -> None:
        if path == files[1]:
            raise error
        write(path, content, *about)

    monkeypatch.setattr(rewriting, "write_atomically", fail_at_the_second)
    if isinstance(error, OSError):
        refused = found.finish(found.groups, write=True).refused
        assert "it cannot be written: No space left on device" in refused.values()
    else:
        with pytest.raises(KeyboardInterrupt):
            found.finish(found.groups, write=True)
    assert [file.read_text() for file in files] == before


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_tried(
    files: tuple[Path, Path],
) -> None:
    files[0].chmod(0o444)
    found = propose(files)
    assert list(found.refused.values()) == ["it is read-only"]
    assert [Path(each[0].path).name for each in found.groups] == ["two.py"]


def group_at(found: Proposal, line: int) -> tuple[Group, Source]:
    group = next(each for each in found.groups if each[0].line == line)
    return group, found.sources[group[0].path]


def test_a_group_is_run_where_its_line_is(files: tuple[Path, Path]) -> None:
    group, source = group_at(propose(files[:1]), 12)
    assert is_run(group, source, {1, 3, 9, 12})
    assert not is_run(group, source, {1, 3, 4, 5, 6, 9, 10, 11, 13})


def test_to_be_defined_is_not_to_be_run(files: tuple[Path, Path]) -> None:
    group, source = group_at(propose(files[:1]), 6)
    import msgspec

    whole = tuple(msgspec.structs.replace(each, line=3, end_line=3) for each in group)
    assert not is_run(whole, source, {1, 3, 9, 12})
    assert is_run(whole, source, {1, 3, 4})
