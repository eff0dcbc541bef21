"""Patterns as in a .gitignore; git itself is asked whether they mean the same."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hasten.scan.patterns import Patterns

PATHS = (
    "a.py", "b.py", "build/a.py", "src/a.py", "src/build/a.py", "src/gen/a.py", "src/gen/deep/b.py",
    "gen/a.py", "x[1].py", "weird !.py", "src/test_a.py", "src/a.pyc", "docs/src/a.py", "#a.py",
    "a b.py", "src/gen/keep.py",
)  # fmt: skip
CASES = (
    ["a.py"],
    ["/a.py"],
    ["build/"],
    ["src/gen"],
    ["**/gen"],
    ["src/**"],
    ["src/**/b.py"],
    ["*.py", "!b.py"],
    ["src/*", "!src/a.py"],
    ["gen/*", "!gen/a.py"],
    ["test_?.py", "[ab].py"],
    ["[!a].py"],
    ["# a comment", "", r"\#a.py"],
    [r"x\[1\].py"],
    ["a b.py   "],
    ["src/gen/*.py", "!keep.py"],
    ["**/a.py"],
    ["a**.py"],
    ["[z-a].py"],
)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to ask")
@pytest.mark.parametrize("lines", CASES, ids=" ".join)
def test_git_leaves_out_the_same(lines: list[str], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    ended = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-oi", "--exclude-standard", "-z"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    by_git = {each for each in ended.stdout.split("\0") if each}
    assert {path for path in PATHS if Patterns(lines).cover(path)} == by_git


def test_the_last_that_fits_decides() -> None:
    patterns = Patterns(["*.py", "!a.py"])
    assert patterns.of("b.py", is_folder=False) is True
    assert patterns.of("a.py", is_folder=False) is False
    assert patterns.of("a.txt", is_folder=False) is None
