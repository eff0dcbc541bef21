"""A wall clock that jumps an hour changes no duration: nothing takes time by it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "hasten"
WALL = {"time", "time_ns", "localtime", "gmtime", "clock_gettime", "now", "utcnow"}
MODULES = {"time", "datetime"}
DATES_OF_FILES = SOURCE / "host" / "files.py"
"""Has the one function that tells the age of files."""


def _readings(code: str) -> list[ast.Call]:
    """Of the wall clock, but for those that become the text of a date at once."""
    tree = ast.parse(code)
    dates = {
        id(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "isoformat"
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in MODULES
        and node.func.attr in WALL
        and id(node) not in dates
    ]


def test_durations_are_taken_by_clocks_that_do_not_jump() -> None:
    for path in set(SOURCE.rglob("*.py")) - {DATES_OF_FILES}:
        assert not _readings(path.read_text()), path
        assert "from time import" not in path.read_text(), path


@pytest.mark.parametrize("code", ["start = time.time()", "end = datetime.now(UTC) - start"])
def test_one_would_be_seen(code: str) -> None:
    assert len(_readings(code)) == 1
