"""Which files are looked at."""

import os
from pathlib import Path

import pytest
from projects import put, write

from hasten.errors import HastenError
from hasten.scan.files import Excluded, python_files
from hasten.scan.patterns import Patterns


def names(folder: Path, *paths: Path) -> list[str]:
    files = python_files(paths or (folder,))
    return [each.relative_to(folder).as_posix() for each in files.found]


def test_files_come_by_name_those_of_a_folder_before_those_in_its_folders(tmp_path: Path) -> None:
    write(tmp_path, b="", a="", pkg__z="", pkg__inner__y="", another__x="")
    (tmp_path / "notes.txt").touch()
    assert names(tmp_path) == ["a.py", "b.py", "another/x.py", "pkg/z.py", "pkg/inner/y.py"]


def test_what_tools_make_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, a="", build__b="", node_modules__c="", env__lib__d="")
    put(tmp_path / ".venv/e.py", "")
    put(tmp_path / "env/pyvenv.cfg", "home = /usr")
    assert names(tmp_path) == ["a.py"]
    assert names(tmp_path, tmp_path / "build") == ["build/b.py"]


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, a="", out__b="", pkg__c="", pkg__kept="", pkg__deep__made="")
    put(tmp_path / ".gitignore", "out/\nmade.py\n")
    put(tmp_path / "pkg/.gitignore", "c.py\n!deep/made.py\n")
    assert names(tmp_path) == ["a.py", "pkg/kept.py", "pkg/deep/made.py"]


def test_what_git_ignores_above_counts_only_within_its_repository(tmp_path: Path) -> None:
    write(tmp_path, pkg__c="", pkg__d="")
    put(tmp_path / ".gitignore", "c.py\n")
    assert names(tmp_path, tmp_path / "pkg") == ["pkg/c.py", "pkg/d.py"]
    (tmp_path / ".git").mkdir()
    assert names(tmp_path, tmp_path / "pkg") == ["pkg/d.py"]


def test_a_file_that_is_named_is_taken_unless_it_is_excluded(tmp_path: Path) -> None:
    write(tmp_path, a="", b="", gen__c="")
    put(tmp_path / ".gitignore", "a.py")
    named = [tmp_path / "a.py", tmp_path / "gen/c.py", tmp_path / "a.py"]
    assert names(tmp_path, *named) == ["a.py", "gen/c.py"]
    excluded = Excluded(tmp_path, Patterns(["gen/"]))
    assert python_files([*named, tmp_path], excluded).found == [
        tmp_path / "a.py",
        tmp_path / "b.py",
    ]


def test_links_go_round_in_no_circle(tmp_path: Path) -> None:
    write(tmp_path, a="", pkg__b="")
    (tmp_path / "pkg/up").symlink_to(tmp_path)
    (tmp_path / "pkg/itself").symlink_to(tmp_path / "pkg/itself")
    assert names(tmp_path) == ["a.py", "pkg/b.py"]


def test_a_folder_that_is_called_like_a_module_is_a_folder(tmp_path: Path) -> None:
    write(tmp_path, a="")
    put(tmp_path / "folder.py/b.py", "")
    assert names(tmp_path) == ["a.py", "folder.py/b.py"]


def test_folders_may_be_deep(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 300)
    deep.mkdir(parents=True)
    (deep / "a.py").touch()
    assert python_files([tmp_path]).found == [deep / "a.py"]


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is closed to this user")
def test_a_closed_folder_is_told(tmp_path: Path) -> None:
    write(tmp_path, a="", closed__b="")
    (tmp_path / "closed").chmod(0)
    files = python_files([tmp_path])
    (tmp_path / "closed").chmod(0o700)
    assert files.found == [tmp_path / "a.py"]
    assert files.closed == {tmp_path / "closed": "Permission denied"}


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="nowhere is not there"):
        python_files([tmp_path / "nowhere"])
