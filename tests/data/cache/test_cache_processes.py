"""One folder, many processes: the right arrays for each, one of them builds, the limit holds."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasten.data import DatasetCache
from hasten.data.cache.folder import CacheFolder, size_of
from hasten.data.cache.upkeep import verify

BUILDER = """
import os, time
import numpy as np

def build(log, n, slow_s=0.0):
    with open(log, "a") as file:
        file.write("x")
    time.sleep(slow_s)
    return {"numbers": np.full(n, 7), "again": np.full(n, 7), "n": n}
"""
READER = """
import sys, time
from hasten.data import DatasetCache, cached
import own

folder, log, seconds, n, slow_s = sys.argv[1:]
read = cached(own.build, cache=DatasetCache(folder), key=lambda log, n, slow_s: (n,))
ends = time.monotonic() + float(seconds)
count = 0
while True:
    got = read(log, int(n), float(slow_s))
    count += 1
    assert got["n"] == int(n) and list(got) == ["numbers", "again", "n"]
    assert (got["numbers"] == 7).all() and (got["again"] == 7).all()
    assert got["numbers"].shape == got["again"].shape == (int(n),)
    if time.monotonic() > ends:
        break
print(count)
"""
DELETER = """
import sys, time
from pathlib import Path
from hasten.data.cache.upkeep import clear

ends = time.monotonic() + float(sys.argv[2])
removed = 0
while time.monotonic() < ends:
    removed += len(clear(Path(sys.argv[1])).removed)
    time.sleep(0.005)
print(removed)
"""
WRITER = """
import sys
from hasten.data import DatasetCache, cached
import own

folder, log, first = sys.argv[1:]
read = cached(own.build, cache=DatasetCache(folder, limit="1MB"), key=lambda log, n: (n, log))
for n in range(12):
    size = 5_000 + 1000 * int(first) + n
    assert (read(log + str(n), size)["numbers"] == 7).all()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(BUILDER)
    return tmp_path


def start(place: Path, code: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, str(place / "cache"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.strip()


def test_fault_19_sixteen_processes_at_one_key_build_it_once(place: Path) -> None:
    log = place / "log"
    crew = [start(place, READER, log, 0, 1000, 0.5) for _ in range(16)]
    assert [ended(each) for each in crew] == ["1"] * 16
    assert log.read_text() == "x"


def test_fault_19_sixteen_processes_while_one_deletes_read_nothing_torn(place: Path) -> None:
    log = place / "log"
    crew = [start(place, READER, log, 3, 2000, 0) for _ in range(15)]
    deleter = start(place, DELETER, 4)
    reads = sum(int(ended(each)) for each in crew)
    removed = int(ended(deleter))
    built = len(log.read_text())
    assert removed > 1
    assert built > 1  # so it was deleted and built again
    assert reads > built
    left = verify(place / "cache", lambda message: None)
    assert left.removed == ()
    assert not list((place / "cache").rglob(".new-*"))


def test_the_limit_holds_under_concurrent_writers(place: Path) -> None:
    crew = [start(place, WRITER, place / "log", first) for first in range(4)]
    most = 0
    folder = CacheFolder(place / "cache")
    while any(each.poll() is None for each in crew):
        with folder.lock_to_change():  # else one that goes and one that comes are both counted
            most = max(most, sum(each.bytes for each in folder.places()))
        time.sleep(0.005)
    assert [ended(each) for each in crew] == [""] * 4
    whole = size_of(place / "cache")
    assert 700_000 < whole <= 1_000_000
    assert 0 < most <= 1_000_000
    assert verify(place / "cache", lambda message: None).removed == ()


def test_fault_34_a_builder_that_is_killed_holds_nobody_up(place: Path) -> None:
    log = place / "log"
    slow = start(place, READER, log, 0, 1000, 600)
    wait_until(lambda: log.exists())
    waiting = start(place, READER, log, 0, 1000, 0)
    time.sleep(0.5)
    assert waiting.poll() is None
    slow.kill()
    slow.communicate()
    assert ended(waiting) == "1"
    assert log.read_text() == "xx"


def test_one_that_waits_can_be_interrupted(place: Path) -> None:
    log = place / "log"
    slow = start(place, READER, log, 0, 1000, 600)
    wait_until(lambda: log.exists())
    waiting = start(place, READER, log, 0, 1000, 0)
    time.sleep(1.0)
    waiting.send_signal(signal.SIGINT)
    _, errors = waiting.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    slow.kill()
    slow.communicate()


def test_what_a_killed_writer_left_is_swept_by_the_next(place: Path) -> None:
    cache = DatasetCache(place / "cache")
    folder = CacheFolder(cache.folder)
    code = (
        "import sys, os\nfrom pathlib import Path\n"
        "from hasten.data.cache.folder import CacheFolder\n"
        "with CacheFolder(Path(sys.argv[1])).new('ab' * 32) as new:\n"
        "    (new / '0.npy').write_bytes(bytes(1000)); os._exit(0)\n"
    )
    ended(start(place, code))
    (left,) = (place / "cache").rglob(".new-*")
    with folder.new("ab" * 32) as mine:  # of a living writer
        cache.get_or_build(np.arange, 5)
        assert not left.exists()
        assert mine.exists()


def wait_until(true: Any) -> None:
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def slow_square(n: int) -> Any:
    time.sleep(0.3)
    return np.arange(n) ** 2


def test_fault_34_threads_and_forked_children_use_one_cache(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path / "cache")
    found: list[int] = []

    def read() -> None:
        found.append(int(cache.get_or_build(slow_square, 100)[-1]))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    child = os.fork()  # while a thread builds and holds the lock
    if child == 0:
        right = int(cache.get_or_build(slow_square, 100)[-1]) == 99**2
        os._exit(0 if right else 1)
    for thread in threads:
        thread.join(timeout=60)
    assert found == [99**2] * 8
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_one_that_has_an_entry_mapped_keeps_it(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path / "cache")
    mapped = cache.get_or_build(slow_square, 100)
    (entry,) = CacheFolder(cache.folder).places()
    CacheFolder(cache.folder).remove(entry.path)
    assert not entry.path.exists()
    assert (mapped == np.arange(100) ** 2).all()


def filled(n: int, size: int) -> Any:
    return np.full(size, n, np.uint8)


def test_the_least_recently_used_entry_goes_first(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path / "cache", limit=35_000)
    folder = CacheFolder(cache.folder)
    places = {}
    for n in range(3):
        cache.get_or_build(filled, n, 9_000)
        (new,) = [each for each in folder.places() if each.key not in places]
        places[new.key] = n
        os.utime(new.path / "manifest.json", (1000 + n, 1000 + n))
    cache.get_or_build(filled, 0, 9_000)  # used: no longer the oldest
    cache.get_or_build(filled, 3, 9_000)
    kept = {places.get(each.key, 3) for each in folder.places()}
    assert kept == {0, 2, 3}


def test_a_cache_that_is_linked_to_another_disk_keeps_its_limit(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "data").symlink_to(tmp_path / "disk")
    cache = DatasetCache(tmp_path / "cache", limit=35_000)
    for n in range(6):
        assert cache.get_or_build(filled, n, 9_000)[0] == n
    assert 20_000 < size_of(tmp_path / "disk") <= 35_000
    assert len(CacheFolder(cache.folder).places()) == 3


def test_an_entry_larger_than_the_limit_is_returned_and_told(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path / "cache", limit="20KB")
    cache.get_or_build(filled, 1, 9_000)
    for size in (50_000, 19_900):  # one by its numbers, one by its manifest only
        fresh = DatasetCache(tmp_path / "cache", limit="20KB")
        with pytest.warns(RuntimeWarning, match=r"more than the limit .*20,000 bytes.* not kept"):
            assert fresh.get_or_build(filled, 2, size).sum() == 2 * size
    assert len(CacheFolder(cache.folder).places()) == 1  # nothing had to go for them
    assert not list(cache.folder.rglob(".new-*"))
