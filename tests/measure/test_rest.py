"""Real child processes that compute for a while, or do not end at all."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hasten.measure import rest


def _child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


COMPUTES_THEN_SLEEPS = """
import pathlib, time
end = time.process_time() + 1
pathlib.Path("begun").touch()
while time.process_time() < end: pass
pathlib.Path("done").touch()
time.sleep(600)
"""


def test_it_waits_for_a_child_that_computes_and_not_for_one_that_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    child = _child(COMPUTES_THEN_SLEEPS)
    try:
        while not Path("begun").exists():
            time.sleep(0.01)
        rest.wait_for_children_to_rest()
        assert Path("done").exists()
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
