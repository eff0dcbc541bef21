"""What `hasten gallery` tells of a bundled workload."""

from hasten.records.record import Record


class WorkloadSize(Record, frozen=True, kw_only=True):
    name: str
    """As in ``gallery:NAME@SIZE``."""
    shape: str
    """Rows, model and batch size, in a line."""


class Workload(Record, frozen=True, kw_only=True):
    name: str
    about: str
    """What is learnt from what, in a line."""
    metric: str
    """By which its script and its task are judged."""
    higher_is_better: bool
    chance: float
    """What guessing comes to."""
    margin: float
    """By how much the script at ``small`` is at least better than that."""
    mistakes: tuple[str, ...]
    """That its script makes, of those that are common in the field; a line each."""
    sizes: tuple[WorkloadSize, ...]


class Gallery(Record, frozen=True, kw_only=True):
    """The document of ``hasten gallery``: every bundled workload, by name."""

    workloads: tuple[Workload, ...]
