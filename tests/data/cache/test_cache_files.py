"""Files count by their content, and are not read again while they are the same."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hasten.data.cache.keys.files import FileDigests
from hasten.data.strings import Strings
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


FORMS: dict[str, Callable[[str], object]] = {
    "text": str,
    "list": lambda name: [name, 1],
    "texts": lambda name: ["other", name],
    "many texts": lambda name: [*("other" for _ in range(1000)), name],
    "key": lambda name: {name: 1},
    "numpy's text": np.str_,
    "array": lambda name: np.array(["other", name]),
    "array of objects": lambda name: np.array(["other", name], object),
    "strings": lambda name: Strings.of(["other", name]),
    "column": lambda name: pd.DataFrame({"path": [name]}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["image", "image.png", "folder/image"])
def test_a_file_that_a_text_names_counts_wherever_the_text_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("1")
    before = key_of(take, FORMS[form](name))
    path.write_text("2")
    assert key_of(take, FORMS[form](name)) != before
    path.write_text("1")
    assert key_of(take, FORMS[form](name)) == before


def test_a_text_that_names_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match=r"names the folder .* would change unseen"):
        key_of(take, [f"{tmp_path}/"])
    for word in (".", "/", "..", "src", "./"):
        key_of(take, word)  # more likely a word than a path


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
    wait_until_settled(path)
    first = FileDigests(kept).digest(path)
    (memory,) = kept.iterdir()
    memory.write_text(memory.read_text().replace(first.sha256, "f" * 64))
    assert FileDigests(kept).digest(path).sha256 == "f" * 64  # so it was not read again
    path.write_bytes(b"2" * 1000)
    os.utime(path, (long_ago, long_ago))  # what sets the time back is seen all the same
    assert FileDigests(kept).digest(path).sha256 not in ("f" * 64, first.sha256)


def test_a_file_that_is_written_through_a_map_is_seen_to_change(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True)
    if kind.stdout.strip() == "tmpfs":
        pytest.skip("a file in memory does not tell its times")
    path = tmp_path / "mapped.bin"
    path.write_bytes(bytes(1000))
    mapped = np.memmap(path, np.uint8, "r+")
    mapped[0] = 1
    wait_until_settled(path)
    digests = FileDigests()
    before = digests.digest(path)
    mapped[0] = 2
    assert digests.digest(path).sha256 != before.sha256


def wait_until_settled(path: Path) -> None:
    while time.time() - path.stat().st_ctime < 2.1:
        time.sleep(0.1)
