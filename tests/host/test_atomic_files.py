"""Writes that are whole or not there."""

import os
import threading
from pathlib import Path

import pytest

from hasten.host.files import write_atomically

LARGE = 4_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"old")
    return path


def test_content_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "new.bin"
    content = bytes(range(256)) + b"\r\n\n"
    write_atomically(path, content)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_an_old_file_is_replaced(path: Path) -> None:
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_others_may_read_what_was_written(path: Path) -> None:
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("fault", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
def test_a_failure_on_the_way_to_disk_keeps_the_old_file_and_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def fail(descriptor: int) -> None:
        raise fault

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(fault)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_to_rename_leaves_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomically(taken, b"new")
    assert list(tmp_path.iterdir()) == [taken]
    assert list(taken.iterdir()) == []


def test_content_that_cannot_be_written_leaves_nothing(path: Path) -> None:
    with pytest.raises(TypeError):
        write_atomically(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "file", b"x")


def test_the_new_file_is_on_disk_before_it_takes_the_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bytes, int]] = []
    real = os.fsync

    def look(descriptor: int) -> None:
        real(descriptor)
        seen.append((path.read_bytes(), os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", look)
    write_atomically(path, b"a new one")
    assert seen == [(b"old", 9)]


def test_a_reader_never_sees_a_part(path: Path) -> None:
    whole = {b"a" * LARGE, b"b" * LARGE}
    path.write_bytes(b"a" * LARGE)
    reads: list[bool] = []
    written = threading.Event()

    def read() -> None:
        while not written.is_set():
            reads.append(path.read_bytes() in whole)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(10):
            for content in whole:
                write_atomically(path, content)
    finally:
        written.set()
        reader.join()
    assert len(reads) > 1
    assert all(reads)
