"""Files count by their content, and are not read again while they are the same."""

import os
import time
from pathlib import Path

import pytest

from hasten.data.cache.keys.files import FileDigests
from hasten.errors import HastenError
from keyed import key_of


def take(value: object) -> None:
    """A builder with one argument of any kind."""


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for form in (Path, str):
        path.write_text("a\n1\n")
        before = key_of(take, form(path))
        path.write_text("a\n2\n")
        assert key_of(take, form(path)) != before
        path.write_text("a\n1\n")
        assert key_of(take, form(path)) == before
    with path.open() as file:
        assert key_of(take, file) not in (before, key_of(take, path))


def test_a_path_to_nothing_or_to_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="cannot be read: No such file"):
        key_of(take, tmp_path / "none")
    with pytest.raises(HastenError, match="is not a file"):
        key_of(take, tmp_path)


def test_a_digest_of_a_file_is_remembered_only_once_the_file_is_settled(tmp_path: Path) -> None:
    path, kept = tmp_path / "big.bin", tmp_path / "files"
    path.write_bytes(b"1" * 1000)
    FileDigests(kept).digest(path)
    assert not kept.exists()  # written just now: it may change again unseen
    long_ago = time.time() - 100
    os.utime(path, (long_ago, long_ago))
    while time.time() - path.stat().st_ctime < 2.1:
        time.sleep(0.1)
    first = FileDigests(kept).digest(path)
    (memory,) = kept.iterdir()
    memory.write_text(memory.read_text().replace(first.sha256, "f" * 64))
    assert FileDigests(kept).digest(path).sha256 == "f" * 64  # so it was not read again
    path.write_bytes(b"2" * 1000)
    os.utime(path, (long_ago, long_ago))  # what sets the time back is seen all the same
    assert FileDigests(kept).digest(path).sha256 not in ("f" * 64, first.sha256)
