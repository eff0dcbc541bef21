"""Work in a forked copy: what it says, how it ends, and that nothing of it is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from hasten.host.forked import ForkFailed, can_fork, forked

PARENT = """
import time
from hasten.host.forked import forked
def work(send):
    import os
    send(os.getpid())
    time.sleep(60)
for child in forked(work, 60):
    print(child, flush=True)
"""


def test_it_gives_what_is_sent_and_changes_nothing_here() -> None:
    held = [1]

    def work(send: Callable[[Any], None]) -> None:
        held.append(2)
        send(list(held))
        send(os.getpid())

    told, process = forked(work, 30)
    assert told == [1, 2]
    assert process != os.getpid()
    assert held == [1]
    assert can_fork()


def test_one_that_is_not_done_in_time_is_ended() -> None:
    before = psutil.Process().children()
    with pytest.raises(ForkFailed, match=r"it was not done after 0\.1 s"):
        list(forked(lambda send: time.sleep(60), 0.1))
    assert psutil.Process().children() == before


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended by signal 9"),
        (lambda: os._exit(3), "ended with exit code 3"),
    ],
)
def test_how_it_ended_is_said(end: Callable[[], None], how: str) -> None:
    with pytest.raises(ForkFailed, match=how):
        list(forked(lambda send: end(), 30))


def test_it_ends_when_nobody_listens_any_more() -> None:
    def work(send: Callable[[Any], None]) -> None:
        send("first")
        time.sleep(60)

    before = psutil.Process().children()
    messages = forked(work, 30)
    assert next(iter(messages)) == "first"
    messages.close()  # type: ignore[attr-defined]
    assert psutil.Process().children() == before


@pytest.mark.skipif(sys.platform != "linux", reason="asked of the Linux kernel")
def test_it_dies_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    limit = time.monotonic() + 10
    while psutil.pid_exists(child) and time.monotonic() < limit:
        if psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
