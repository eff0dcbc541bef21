"""A clock that no machine decides: it goes on as a task says, and a little at each look at it.

What a worker measures, it measures by ``time.perf_counter``; limits are kept by another clock,
which stays as it is.
"""

import time

import hasten.measure.ceilings

LOOK_S = 1e-4


class Clock:
    def __init__(self) -> None:
        self._now_s = time.perf_counter()

    def read(self) -> float:
        self.pass_by(LOOK_S)
        return self._now_s

    def pass_by(self, seconds: float) -> None:
        self._now_s += seconds


def pretend() -> None:
    """From here on, in this process and those forked from it."""
    hasten.measure.ceilings.EACH_S = 0.0  # its loops would have to look at the clock very often
    if not isinstance(getattr(time.perf_counter, "__self__", None), Clock):
        time.perf_counter = Clock().read


def sleep(seconds: float) -> None:
    """Takes no time but by that clock."""
    time.perf_counter.__self__.pass_by(seconds)
