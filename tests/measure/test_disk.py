"""Whether the disk is waited for: what the counters come to, and which files are found."""

import subprocess
import sys
from pathlib import Path

import pytest

from hasten.measure.disk import Counters, judge

MIB = 1 << 20
NOTHING = Counters(0, 0, 0)


@pytest.mark.parametrize(
    ("files", "from_disk", "cold_s", "verdict"),
    [
        (3, 8 * MIB, 2.0, "disk"),
        (3, 8 * MIB, 1.1, "not_disk"),
        (3, 0, 2.0, "unknown"),
        (0, 0, 1.0, "no_files"),
        (0, 8 * MIB, 2.0, "disk"),
    ],
)
def test_what_came_from_the_disk_and_how_long_it_took_decides(
    files: int, from_disk: int, cold_s: float, verdict: str
) -> None:
    between = Counters(10 * MIB, from_disk, 50)
    after = Counters(20 * MIB, from_disk, 50)
    found = judge(4, files, (NOTHING, between, after), cold_s, 1.0)
    assert found.verdict == verdict
    assert (found.asked_bytes, found.cold_disk_bytes) == (10 * MIB, from_disk)
    assert found.warm_disk_bytes == 0
    assert found.waited_s is not None
    assert found.why


def test_a_system_that_counts_no_reads_gives_no_verdict() -> None:
    found = judge(4, 1, (None, None, None), 2.0, 1.0)
    assert (found.verdict, found.asked_bytes) == ("unknown", None)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux")
def test_files_are_found_whether_they_are_opened_for_each_item_or_kept_open(
    tmp_path: Path,
) -> None:
    """In a process of its own, since audit hooks stay."""
    (tmp_path / "a.bin").write_bytes(bytes(100))
    (tmp_path / "b.bin").write_bytes(bytes(100))
    code = (
        "from hasten.measure.disk import measure_disk\n"
        "kept = open('b.bin', 'rb')\n"
        "def begin():\n"
        "    for _ in range(3):\n"
        "        kept.seek(0)\n"
        "        yield open('a.bin', 'rb').read() + kept.read()\n"
        "found = measure_disk(begin)\n"
        "print(found.batches, found.files, found.asked_bytes >= 300)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["3", "2", "True"], done.stderr
