"""Work in a forked copy of this process: whatever it changes in its objects is gone with it."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

PR_SET_PDEATHSIG = 1


class ForkFailed(Exception):  # noqa: N818
    """The copy did not come to its end; the message says why."""


def die_with(parent: int) -> None:
    """Ask the kernel to kill us when the parent dies, even while we are stopped (Linux), and the
    processes that we fork when we die."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.register_at_fork(after_in_child=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    if os.getppid() != parent:
        raise SystemExit(0)  # it died before we could ask


def can_fork() -> bool:
    daemon = multiprocessing.current_process().daemon  # which may have no children
    return "fork" in multiprocessing.get_all_start_methods() and not daemon


def forked(work: Callable[[Callable[[Any], None]], None], limit_s: float) -> Iterator[Any]:
    """Run ``work(send)`` in a copy of this process; gives what it sends.

    The copy is ended after ``limit_s``, and with whoever stops listening. Raises ``ForkFailed``.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(work, ours, theirs, os.getpid()), daemon=True)
    process.start()
    theirs.close()
    try:
        yield from _messages(ours, time.monotonic() + limit_s, limit_s)
        process.join()
        if process.exitcode:
            raise ForkFailed(_how_it_ended(process.exitcode))
    finally:
        process.kill()
        process.join()
        ours.close()


def _run(work: Callable[..., None], ours: Connection, theirs: Connection, parent: int) -> None:
    die_with(parent)
    ours.close()
    work(theirs.send)


def _messages(connection: Connection, deadline: float, limit_s: float) -> Iterator[Any]:
    while connection.poll(max(deadline - time.monotonic(), 0)):
        try:
            message = connection.recv()
        except EOFError:
            return
        yield message
    raise ForkFailed(f"it was not done after {limit_s:g} s")


def _how_it_ended(exit_code: int) -> str:
    if exit_code < 0:
        return f"its process was ended by signal {-exit_code}"
    return f"its process ended with exit code {exit_code}"
