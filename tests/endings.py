"""Processes that are to be gone: one that was killed takes a while to go where cores are busy."""

import time
from collections.abc import Iterable

import psutil

GONE_S = 20.0


def still_alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that live on, seconds after what should have ended them."""
    left = list(processes)
    deadline = time.monotonic() + GONE_S
    while (left := [each for each in left if _lives(each)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
