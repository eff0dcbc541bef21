"""Real child processes that compute for a while, or do not end at all."""

import subprocess
import sys
import time

import pytest

from hasten.measure import rest


def _child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


def test_it_waits_for_a_child_that_computes_and_not_for_one_that_sleeps() -> None:
    busy = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\n"
    child = _child(busy + "time.sleep(600)")
    try:
        time.sleep(0.2)
        rest.wait_for_children_to_rest()
        times = rest.psutil.Process(child.pid).cpu_times()
        assert times.user + times.system >= 1
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_child_that_never_rests_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rest, "LIMIT_S", 0.5)
    child = _child("while True: pass")
    try:
        rest.wait_for_children_to_rest()
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
