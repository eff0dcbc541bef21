"""``hasten cache`` by the real command."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from hasten.data import DatasetCache
from hasten.data.cache.folder import CacheFolder

SCHEMAS = Path(__file__).parents[2] / "docs/schema"


def hasten(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hasten", "cache", *arguments, "--folder", str(folder)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "110"},
    )


def document(ended: subprocess.CompletedProcess[str], schema: str) -> Any:
    found = json.loads(ended.stdout)
    jsonschema.validate(found, json.loads((SCHEMAS / f"{schema}.json").read_text()))
    return found


def numbers(n: int) -> Any:
    return np.arange(n)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with three entries, of which ``numbers(3000)`` was used last."""
    cache = DatasetCache(tmp_path / "cache")
    for moment, n in enumerate((1000, 2000, 3000)):
        known = {each.key for each in CacheFolder(cache.folder).places()}
        cache.get_or_build(numbers, n)
        (new,) = [e for e in CacheFolder(cache.folder).places() if e.key not in known]
        os.utime(new.path / "manifest.json", (10**9 + moment, 10**9 + moment))
    return cache.folder


def entries(folder: Path) -> list[Path]:
    return [each.path for each in CacheFolder(folder).places()]


def test_ls_shows_the_last_used_first(folder: Path) -> None:
    ended = hasten(folder, "ls")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("3 entries, 49 KiB of at most")
    assert lines[0].endswith(f"in {folder}")
    rows = [line.split() for line in lines[3:]]
    assert [row[0] for row in rows] == [each.name[:12] for each in reversed(entries(folder))]
    assert {row[1] for row in rows} == {"test_cache_command.numbers"}
    assert rows[0][-2:] == ["2001-09-09", "01:46"]
    told = document(hasten(folder, "ls", "--json"), "cache-ls")
    assert [each["bytes"] // 8000 for each in told["entries"]] == [3, 2, 1]
    assert told["bytes"] == sum(each["bytes"] for each in told["entries"])


@pytest.mark.parametrize("command", ["ls", "verify", "prune", "clear"])
def test_a_cache_that_is_not_there_is_empty_and_is_not_made(tmp_path: Path, command: str) -> None:
    yes = ["--yes"] if command == "clear" else []
    ended = hasten(tmp_path / "none", command, *yes)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "none").exists()
    if command == "ls":
        assert ended.stdout == f"The cache is empty (in {tmp_path}/none).\n"


@pytest.mark.parametrize("command", ["ls", "verify", "prune", "clear"])
@pytest.mark.parametrize("below", ["", "deep"])
def test_a_folder_that_is_none_is_told(tmp_path: Path, command: str, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    yes = ["--yes"] if command == "clear" else []
    ended = hasten(tmp_path / "file" / below, command, *yes)
    assert ended.returncode == 2
    assert "cannot be read: Not a directory." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_the_usual_folder_is_the_users(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hasten", "cache", "ls"]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert ended.stdout == f"The cache is empty (in {tmp_path}/hasten).\n"


def test_verify_finds_a_flipped_bit_and_removes_the_entry(folder: Path) -> None:
    good = hasten(folder, "verify")
    assert (good.returncode, good.stdout[:22]) == (0, "GOOD  3 entries whole,")
    bad = entries(folder)[1]
    content = bytearray((bad / "0.npy").read_bytes())
    content[-1] ^= 1
    (bad / "0.npy").write_bytes(content)
    ended = hasten(folder, "verify", "--json")
    assert ended.returncode == 1
    told = document(ended, "cache-verify")
    assert told["good"] == 2
    assert told["removed"] == [
        {"path": str(bad), "why": "0.npy has not the checksum of its manifest"}
    ]
    assert not bad.exists()
    assert hasten(folder, "verify").returncode == 0


def test_prune_removes_the_least_recently_used(folder: Path) -> None:
    last = entries(folder)[-1]
    told = document(hasten(folder, "prune", "--limit", "30KB", "--json"), "cache-removal")
    assert (len(told["removed"]), told["kept"]) == (2, 1)
    assert told["freed_bytes"] == sum(each["bytes"] for each in told["removed"])
    assert entries(folder) == [last]


def test_prune_removes_what_was_not_used_for_long(folder: Path) -> None:
    newest = entries(folder)[-1]
    os.utime(newest / "manifest.json")
    ended = hasten(folder, "prune", "--older-than", "30d")
    assert ended.stdout.startswith("Removed 2 entries, ")
    assert entries(folder) == [newest]
    assert hasten(folder, "prune").stdout.startswith("Removed 0 entries, 0 B")


@pytest.mark.parametrize(
    ("option", "fix"), [(["--limit", "much"], "5GB"), (["--older-than", "30"], "30d")]
)
def test_an_amount_that_is_none_is_refused(folder: Path, option: list[str], fix: str) -> None:
    ended = hasten(folder, "prune", *option)
    assert ended.returncode == 2
    assert repr(option[1]) in ended.stderr
    assert fix in ended.stderr
    assert len(entries(folder)) == 3


def test_clear_wants_a_yes(folder: Path) -> None:
    ended = hasten(folder, "clear")
    assert ended.returncode == 2
    assert "Add --yes." in ended.stderr
    assert len(entries(folder)) == 3
    ended = hasten(folder, "clear", "--yes")
    assert ended.returncode == 0
    assert entries(folder) == []


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 3), ("y", 0, 0)])
def test_clear_asks_at_a_terminal(folder: Path, answer: str, code: int, left: int) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hasten", "cache", "clear", "--folder", str(folder)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.write(ours, f"{answer}\n".encode())
        _, said = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert f"Remove all entries of {folder}? [y/N]" in said
    assert process.returncode == code
    assert len(entries(folder)) == left


def test_what_is_not_the_caches_is_told_and_never_followed_or_deleted(
    folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    data = folder / "data"
    (data / "notes\x1b[2J.txt").write_text("mine")
    (data / "ff").symlink_to(outside)
    shard = entries(folder)[0].parent
    (shard / ("0" * 64)).symlink_to(outside)
    (shard / "stranger").mkdir()
    (entries(folder)[0] / "link").symlink_to(outside)
    ended = hasten(folder, "ls")
    assert "notes?[2J.txt" in ended.stdout
    assert "\x1b" not in ended.stdout
    assert ended.stdout.count("left as it is") == 4
    for arguments in (["verify"], ["prune", "--limit", "1B"], ["clear", "--yes"]):
        assert hasten(folder, *arguments).returncode == 0
    assert entries(folder) == []
    assert (outside / "precious").read_text() == "mine"
    assert (data / "notes\x1b[2J.txt").exists()
    assert (shard / "stranger").is_dir()


def test_fault_29_a_hostile_builder_is_shown_inert(tmp_path: Path) -> None:
    def build() -> int:
        return 1

    build.__qualname__ = "<b>[red]\x1b[2J\n;rm"
    DatasetCache(tmp_path / "cache").get_or_build(build)
    ended = hasten(tmp_path / "cache", "ls")
    assert "<b>[" in ended.stdout  # broken by the width of the page
    assert "red]?[2J?;rm" in ended.stdout
    assert "\x1b" not in ended.stdout
