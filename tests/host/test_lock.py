"""Locks between processes and threads."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from hasten.host.lock import FileLock

HOLDER = """
import sys, time
from pathlib import Path
from hasten.host.lock import FileLock
with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_holder_is_turned_away_until_the_first_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not FileLock(path).acquire(wait=False)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with FileLock(path):
            assert path.exists()


def test_a_passing_lock_leaves_no_file_and_holds_all_the_same(tmp_path: Path) -> None:
    """Whoever waited on the file that went away waits on the next one."""
    path, inside, most, lock = tmp_path / "lock", [0], [0], threading.Lock()

    def work() -> None:
        for _ in range(30):
            with FileLock(path, passing=True):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with lock:
                    inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not path.exists()


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    held = FileLock(tmp_path / "lock")
    held.acquire()
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    held.forget()  # as the end of this process would
    free = FileLock(tmp_path / "lock").acquire(wait=False)
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for end in (*ready, *go):
        os.close(end)
    assert free


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    try:
        FileLock(tmp_path / "lock").acquire()
    except OSError:
        assert not (tmp_path / "elsewhere").exists()
    else:
        raise AssertionError("the link was followed")
