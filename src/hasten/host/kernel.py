"""What the kernel did for this process: above all, clear memory before it is used."""

from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class KernelWork(NamedTuple):
    """Since the process began, by all of its threads."""

    seconds: float
    faults: int
    """Pages that were cleared or mapped when they were touched; those read from a disk are none."""


def kernel_work() -> KernelWork:
    """Nothing at all where the system does not tell."""
    if resource is None:
        return KernelWork(0.0, 0)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return KernelWork(used.ru_stime, used.ru_minflt)
