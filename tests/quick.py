"""Measuring that takes next to no time, and says nothing of speed: for tests of all the rest."""

from collections.abc import Callable

from hasten.measure import compare, gauge, lab
from hasten.measure.lab import Lab
from hasten.measure.worker import Worker
from hasten.tune import ablate, confirm, curves, gate, search

LOOKS_S = (0.2, 0.4)


def shorten(
    put: Callable[[object, str, object], None] = setattr,
    looks_s: tuple[float, ...] = LOOKS_S,
) -> None:
    """``put`` sets an attribute, for good or for a test."""
    for module in (compare, lab, confirm, search):
        put(module, "LOOKS_S", looks_s)
    put(compare, "BLOCK_S", 0.01)
    put(gauge, "GAUGE_S", 0.01)
    put(confirm, "CONTROL_S", looks_s[0])
    put(confirm, "FIRST_S", looks_s[0])
    put(ablate, "EACH_S", looks_s[0])
    put(curves, "CURVES_S", 4.0)
    put(gate, "SAVED_PAIRS", 2)
    put(gate, "LOOKS", (2,))
    put(confirm, "PAIRS", 1)
    fork_all(put)


def fork_all(put: Callable[[object, str, object], None] = setattr) -> None:
    """No worker is started anew, which would take seconds."""
    forked = Lab.worker

    def worker(self: Lab, *, anew: bool = False) -> Worker:
        return forked(self)

    put(Lab, "worker", worker)
