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
        before, _ = _work_of_children(me)
        time.sleep(INTERVAL_S)
        after, runnable = _work_of_children(me)
        is_quiet = not runnable and after - before < BUSY_SHARE * INTERVAL_S
        quiet = quiet + 1 if is_quiet else 0


def _work_of_children(process: psutil.Process) -> tuple[float, bool]:
    """Their CPU seconds so far, and whether one would compute now, if it were given a core."""
    total, runnable = 0.0, False
    for child in process.children(recursive=True):
        try:
            times, status = child.cpu_times(), child.status()
        except psutil.NoSuchProcess:
            continue  # it has just ended
        total += times.user + times.system
        runnable = runnable or status == psutil.STATUS_RUNNING
    return total, runnable
