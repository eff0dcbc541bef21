"""What the time of a step is spent on, as shares of it that do not overlap.

Method: what a perfect loader would save was measured, or else the wait and the transfer are
taken. Of the rest of the time the device is busy or idle. It is idle because the host waited for it
and then had to launch anew (reckoned from the places where it waits) or because the host was not
fast enough. The optimizer has its part of what is left. On the CPU there is one device, which is
idle while Python runs between two operations.
"""

from dataclasses import dataclass

from hasten.diagnose.thresholds import CPU_LAUNCH_SHARE, LAUNCH_COSTS, VAGUE_BOUND
from hasten.records.measurement import Phases
from hasten.records.profile import Bound, ProfileParts


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Each from 0 to 1; together 1 where the device was looked at, else less."""

    step_s: float
    loader: float
    """Waiting for data, and bringing it to the device."""
    transfer: float
    """The latter's part of it."""
    syncs: float
    launching: float
    """The device has nothing to do, since the host has not launched anything yet."""
    in_python: float
    """As before, but launches do not explain it."""
    optimizer: float
    model: float
    """The rest of what the device computes."""


def shares_of(parts: ProfileParts, *, on_device: bool) -> Shares:
    step = parts.measurement.typical_step()
    step_s = max(step.total_s(), 1e-12)
    loader = saved_without("loader", parts, (step.data_wait_s + step.transfer_s) / step_s)
    optimizer = saved_without("optimizer", parts, step.optimizer_s / step_s)
    busy = min(_busy(parts, step, on_device=on_device), 1 - loader)
    idle = 1 - loader - busy
    syncs = min(saved_without("syncs", parts, 0.0), idle)
    smallest = _smallest(parts, step_s)
    explained = on_device and LAUNCH_COSTS * smallest >= idle - syncs
    launching, in_python = (idle - syncs, 0.0) if explained else (0.0, idle - syncs)
    if not on_device and smallest >= CPU_LAUNCH_SHARE:  # it is within the operations there
        launching = min(smallest, busy)
        busy -= launching
    # What the host takes to launch an update is counted already.
    optimizer = min(optimizer * busy / max(1 - loader, 1e-12), busy)
    return Shares(
        step_s=step_s,
        loader=loader,
        transfer=min(step.transfer_s / step_s, loader),
        syncs=syncs,
        launching=launching,
        in_python=in_python,
        optimizer=optimizer,
        model=busy - optimizer,
    )


def saved_without(name: str, parts: ProfileParts, by_phases: float) -> float:
    """The share of a step that is gone without something, as its bound tells; ``by_phases`` where
    there is none, or none that says more."""
    bound = next((each for each in parts.bounds if each.without == name), None)
    if bound is None or (name != "syncs" and bound.high > VAGUE_BOUND * bound.low):
        return by_phases
    return min(max(0.0, 1 - 1 / bound.ratio), 1.0)


def without_syncs(step_s: float, device_s: float, waited_s: float) -> Bound:
    """Reckoned: the host no longer waits, and the device still has to compute all of it."""
    left = max(device_s, step_s - waited_s, 1e-12)
    ratio = max(step_s / left, 1.0)
    return Bound(
        without="syncs",
        ratio=ratio,
        low=1.0,
        high=ratio,
        how=f"reckoned, at most: the host waits {1e3 * waited_s:.2f} ms of each step, and the "
        f"device computes for {1e3 * device_s:.2f} ms",
    )


def _busy(parts: ProfileParts, step: Phases, *, on_device: bool) -> float:
    """On the CPU the profiler makes operations and steps longer alike; kernels it leaves alone.
    Where it could not be asked, all but the loop itself is taken to be work."""
    launches, step_s = parts.launches, max(step.total_s(), 1e-12)
    if launches is None:
        return 1 - step.host_s / step_s
    return launches.device_s / (step_s if on_device else max(launches.step_s, 1e-12))


def _smallest(parts: ProfileParts, step_s: float) -> float:
    """What all launches would take of a step if they were the smallest there are; 0 if unknown."""
    if parts.launches is None or parts.ceilings is None:
        return 0.0
    return parts.launches.per_step * parts.ceilings.launch_s / step_s
