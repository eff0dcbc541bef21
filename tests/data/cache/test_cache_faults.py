"""Faults of disks and of entries: the right result, one warning at most, nothing lost."""

import errno
import json
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from hasten.data import DatasetCache
from hasten.data.cache.folder import CacheFolder
from hasten.records.record import digest_of
from namespaces import namespace

TESTS = Path(__file__).parents[2]


def make(n: int) -> Any:
    return {"squares": np.arange(n) ** 2, "n": n}


@pytest.fixture
def cache(tmp_path: Path) -> DatasetCache:
    return DatasetCache(tmp_path / "cache")


@pytest.fixture
def entry(cache: DatasetCache) -> Path:
    """The folder of the entry of ``make(1000)``."""
    assert right(cache.get_or_build(make, 1000))
    return entry_of(cache)


def entry_of(cache: DatasetCache) -> Path:
    (place,) = CacheFolder(cache.folder).places()
    return place.path


def right(result: Any) -> bool:
    assert list(result) == ["squares", "n"]
    return bool((result["squares"] == np.arange(1000) ** 2).all())


def files_in(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if not each.is_dir())


def ask(cache: DatasetCache, *sizes: int) -> list[int]:
    """The last number of each, which is right whatever became of the cache."""
    return [int(cache.get_or_build(make, n)["squares"][-1]) for n in sizes]


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def edit(entry: Path, change: Callable[[dict[str, Any]], Any], *, sealed: bool = True) -> None:
    """A manifest with another content, with the right seal or with the old one."""
    manifest = json.loads((entry / "manifest.json").read_text())
    change(manifest)
    if sealed:
        manifest["seal"] = ""
        manifest["seal"] = digest_of(manifest)
    (entry / "manifest.json").write_text(json.dumps(manifest))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replace_by(make_other: Callable[[Path], Any]) -> Callable[[Path], None]:
    def damage(entry: Path) -> None:
        moved = entry.with_name("moved")
        entry.rename(moved)
        make_other(entry)

    return damage


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "empty folder": lambda entry: [each.unlink() for each in entry.iterdir()],
    "no manifest": lambda entry: (entry / "manifest.json").unlink(),
    "empty manifest": lambda entry: (entry / "manifest.json").write_bytes(b""),
    "half a manifest": lambda entry: truncate(entry / "manifest.json"),
    "manifest of bytes": lambda entry: (entry / "manifest.json").write_bytes(b"\xff\x00" * 100),
    "manifest nested without end": lambda entry: (entry / "manifest.json").write_text("[" * 99_999),
    "manifest that is a folder": lambda entry: (
        (entry / "manifest.json").unlink(),
        (entry / "manifest.json").mkdir(),
    ),
    "no array": lambda entry: (entry / "0.npy").unlink(),
    "empty array": lambda entry: (entry / "0.npy").write_bytes(b""),
    "half an array": lambda entry: truncate(entry / "0.npy"),
    "array that is a pipe": lambda entry: (
        (entry / "0.npy").unlink(),
        os.mkfifo(entry / "0.npy"),
    ),
    "array that is a link": lambda entry: (
        (entry / "0.npy").rename(entry / "1.npy"),
        (entry / "0.npy").symlink_to("1.npy"),
    ),
    "other version": lambda entry: edit(entry, lambda m: m.update(format=99)),
    "other byte order": lambda entry: edit(entry, lambda m: m.update(byte_order="middle")),
    "other schema": lambda entry: edit(entry, lambda m: m.update(surprise=1)),
    "other key": lambda entry: edit(entry, lambda m: m.update(key="0" * 64)),
    "flipped value": lambda entry: edit(
        entry, lambda m: m["result"]["values"][1].update(text="7"), sealed=False
    ),
    "other shape": lambda entry: edit(entry, lambda m: m["arrays"][0].update(shape=[10**6])),
    "negative shape": lambda entry: edit(entry, lambda m: m["arrays"][0].update(shape=[-1])),
    "other offset": lambda entry: edit(entry, lambda m: m["arrays"][0].update(offset=10**6)),
    "no such type": lambda entry: edit(entry, lambda m: m["arrays"][0].update(dtype="'nope'")),
    "code as a type": lambda entry: edit(
        entry, lambda m: m["arrays"][0].update(dtype="__import__('os').abort()")
    ),
    "type that is no text": lambda entry: edit(entry, lambda m: m["arrays"][0].update(dtype="((")),
    "type of types": lambda entry: edit(entry, lambda m: m["arrays"][0].update(dtype="[{1: 2}]")),
    "no such file": lambda entry: edit(entry, lambda m: m["result"]["values"][0].update(file=5)),
    "path out of it": lambda entry: edit(
        entry, lambda m: m["arrays"][0].update(name="../../../.lock")
    ),
    "a file instead": replace_by(lambda path: path.write_bytes(b"x")),
    "a link instead": replace_by(lambda path: path.symlink_to(path.with_name("moved"))),
}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("damage", DAMAGES)
def test_fault_18_a_damaged_entry_is_a_miss_and_is_rewritten(
    cache: DatasetCache, entry: Path, damage: str
) -> None:
    DAMAGES[damage](entry)
    assert right(cache.get_or_build(make, 1000))
    assert (entry / "manifest.json").is_file()
    before = (entry / "manifest.json").stat().st_ino
    assert right(cache.get_or_build(make, 1000))
    assert (entry / "manifest.json").stat().st_ino == before  # a hit


class Canary:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


@pytest.mark.usefixtures("quiet")
def test_fault_6_a_pickle_in_an_entry_is_never_loaded(
    cache: DatasetCache, entry: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    bomb = np.array([Canary(canary)], object)
    for content in ("object array", "bare pickle", "pickled manifest"):
        with (entry / "0.npy").open("wb") as file:
            if content == "object array":
                np.lib.format.write_array(file, bomb, allow_pickle=True)
            else:
                pickle.dump(Canary(canary), file)
        size = (entry / "0.npy").stat().st_size
        if content == "pickled manifest":
            (entry / "manifest.json").write_bytes(pickle.dumps(Canary(canary)))
        else:
            new = {"dtype": "'|O'", "shape": [1], "bytes": size, "offset": size - 8}
            edit(entry, lambda m, new=new: m["arrays"][0].update(new))
        assert right(cache.get_or_build(make, 1000))
        assert not canary.exists()
    pickle.loads(pickle.dumps(Canary(canary)))
    assert canary.exists()  # it is a real one


def disk_error(number: int) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def test_fault_27_a_rename_across_devices_is_told_and_the_result_returned(
    cache: DatasetCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rename", disk_error(errno.EXDEV))
    with pytest.warns(RuntimeWarning, match="cross-device") as told:
        assert ask(cache, 1000, 1000) == [999**2] * 2
    assert len(told) == 1
    assert files_in(cache.folder) == [cache.folder / "data/.lock"]
    assert CacheFolder(cache.folder).places() == []


def test_fault_3_a_file_that_may_grow_no_further_is_told_with_its_bytes(
    cache: DatasetCache, entry: Path
) -> None:
    """By the kernel's limit of a file's size, which fails a write as a full disk does."""
    before = files_in(cache.folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.warns(RuntimeWarning) as told:
            assert ask(cache, 20_000, 20_000) == [19_999**2] * 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    (message,) = [str(each.message) for each in told]
    assert "160,000 bytes" in message
    assert str(cache.folder) in message
    assert "File too large" in message
    assert files_in(cache.folder) == before
    assert entry.is_dir()
    assert right(cache.get_or_build(make, 1000))


DISKS = """
import json, subprocess, sys, warnings
from pathlib import Path
import numpy as np
from hasten.data import DatasetCache

def make(n):
    return np.arange(n)

folder = Path(sys.argv[1])
def mount(*options):
    subprocess.run(["mount", *options, str(folder)], check=True)

mount("-t", "tmpfs", "-o", sys.argv[2], "none")
cache = DatasetCache(folder, limit="1GB")
cache.get_or_build(make, 1000)
if sys.argv[3]:
    mount("-o", sys.argv[3])
def files():
    return sorted(str(each) for each in folder.rglob("*") if not each.is_dir())
before = files()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    results = [int(cache.get_or_build(make, n).sum()) for n in (1000, 300_000, 300_000, 400_000)]
print(json.dumps({
    "results": results,
    "told": [str(each.message) for each in told],
    "untouched": files() == before,
}))
"""
RESULTS = [n * (n - 1) // 2 for n in (1000, 300_000, 300_000, 400_000)]


@pytest.mark.parametrize(
    ("options", "again", "why"),
    [
        ("size=1m", "", "could not be kept in .*: No space left on device"),
        ("size=100m,nr_inodes=9", "", "No space left on device"),
        ("size=100m", "remount,ro", "cannot be written .Read-only file system."),
    ],
    ids=["fault_3_full", "fault_4_no_inodes", "fault_4_read_only"],
)
def test_fault_3_and_4_small_disks(tmp_path: Path, options: str, again: str, why: str) -> None:
    ended = subprocess.run(
        [*namespace(), sys.executable, "-c", DISKS, str(tmp_path), options, again],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["results"] == RESULTS
    assert len(told["told"]) == 1, told["told"]
    assert re.search(why, told["told"][0])
    assert str(tmp_path) in told["told"][0]
    assert told["untouched"]


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_fault_4_a_folder_that_cannot_be_made_turns_caching_off_with_one_warning(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    cache = DatasetCache(tmp_path / "file" / ("deep" if place == "below a file" else ""))
    with pytest.warns(RuntimeWarning, match="cannot be written") as told:
        assert ask(cache, 1000, 1000, 1000) == [999**2] * 3
    assert len(told) == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_fault_4_no_home_turns_caching_off_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", _no_home)
    cache = DatasetCache()
    with pytest.warns(RuntimeWarning, match="has no home folder") as told:
        assert ask(cache, 1000, 1000) == [999**2] * 2
    assert len(told) == 1


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_fault_29_a_hostile_name_stays_in_its_root(cache: DatasetCache) -> None:
    def build() -> Any:
        return 1

    build.__qualname__ = "../../../etc/<script>\x1b[2J\n;rm -rf ~"
    assert cache.get_or_build(build) == 1
    entry = entry_of(cache)
    assert entry.resolve().is_relative_to(cache.folder.resolve())
    manifest = msgspec.json.decode((entry / "manifest.json").read_bytes())
    assert manifest["builder"].endswith(build.__qualname__)
