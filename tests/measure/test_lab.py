"""Files that workers hand each other through the lab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.measure import lab as labs
from hasten.measure.lab import Lab

SIZE = 1000
NEEDS_MEMFD = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="this system has no files that lie in memory"
)


def in_another_process(statement: str, path: Path) -> str:
    code = f"from pathlib import Path; import sys; path = Path(sys.argv[1]); {statement}"
    command = [sys.executable, "-c", code, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@NEEDS_MEMFD
def test_a_large_file_lies_in_memory_and_is_gone_with_the_lab() -> None:
    with Lab("gallery:bloom", seed=0) as lab:
        path = lab.large_file("trace", SIZE)
        assert "memfd:trace" in str(path.readlink())
        for size in (SIZE, 3):
            in_another_process(f"path.write_bytes(bytes({size}))", path)
            assert in_another_process("print(len(path.read_bytes()))", path) == str(size)
        assert not list(lab.folder.iterdir())
    assert not path.exists()


@NEEDS_MEMFD
def test_a_large_file_that_nobody_needs_any_more_takes_no_memory() -> None:
    with Lab("gallery:bloom", seed=0) as lab:
        one, other = lab.large_file("one", SIZE), lab.large_file("other", SIZE)
        lab.drop_file(one)
        assert not one.exists()
        assert other.exists()


def test_a_file_for_which_memory_has_no_room_to_spare_lies_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(labs, "memory_left", lambda: 2 * SIZE)
    _lies_on_disk()


@NEEDS_MEMFD
def test_a_file_that_the_system_does_not_let_lie_in_memory_lies_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "memfd_create", refuse)
    _lies_on_disk()


def _lies_on_disk() -> None:
    with Lab("gallery:bloom", seed=0) as lab:
        path = lab.large_file("trace", SIZE)
        assert path == lab.folder / "trace"
        path.write_bytes(bytes(SIZE))
        lab.drop_file(path)
        assert not list(lab.folder.iterdir())
