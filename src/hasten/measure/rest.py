"""Waits until what the first step started has come to rest.

A first compilation starts a pool of compiler processes, which load for seconds after the step has
ended and take the cores from it: steps were measured ten times too slow while they did. Loader
workers rest too, once they have prefetched what they may.
"""

import time

import psutil

INTERVAL_S = 0.1
QUIET_INTERVALS = 2
BUSY_SHARE = 0.1
"""Of one core, over all child processes together."""
LIMIT_S = 60.0


def wait_for_children_to_rest() -> None:
    """Returns at once where there are no children, and after LIMIT_S at the latest."""
    me, quiet = psutil.Process(), 0
    deadline = time.monotonic() + LIMIT_S
    while me.children() and quiet < QUIET_INTERVALS and time.monotonic() < deadline:
        before = _seconds_of_children(me)
        time.sleep(INTERVAL_S)
        used = _seconds_of_children(me) - before
        quiet = quiet + 1 if used < BUSY_SHARE * INTERVAL_S else 0


def _seconds_of_children(process: psutil.Process) -> float:
    total = 0.0
    for child in process.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it has just ended
        total += times.user + times.system
    return total
