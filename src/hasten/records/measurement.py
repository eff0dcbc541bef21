"""Raw numbers of one run."""

import math
import statistics

from hasten.records.record import Record


class Phases(Record, frozen=True, kw_only=True):
    """Seconds of one step by what it was doing; they add up to the step."""

    data_wait_s: float
    transfer_s: float
    forward_s: float
    backward_s: float
    optimizer_s: float
    host_s: float = 0.0
    """What is none of the others: the loop itself."""
    graph_s: float = 0.0
    """A step that is replayed as one captured graph, whose parts cannot be told apart."""

    def total_s(self) -> float:
        return math.fsum(getattr(self, name) for name in self.__struct_fields__)


class Memory(Record, frozen=True, kw_only=True):
    """Peaks of the whole process; None means never measured, not zero."""

    host_bytes: int | None = None
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None


class Measurement(Record, frozen=True, kw_only=True):
    steps: tuple[Phases, ...]
    rows: tuple[int, ...]
    losses: tuple[float | None, ...]
    """JSON has no NaN: one that was not finite is read back as None."""
    import_s: float = 0.0
    """Of Python, torch and the task's own file, since the process began."""
    build_s: float = 0.0
    """Of the task, its way to the device and the plan."""
    first_batch_s: float = 0.0
    first_step_s: float
    """Of the first optimizer step, until the device has done it; its batch is not counted."""
    kernel_s: float = 0.0
    """Of a step, that threads of the process together spent in the kernel."""
    page_faults: float = 0.0
    """Of a step: pages of memory that were touched for the first time since the kernel gave them
    out."""
    memory: Memory

    def typical_step(self) -> Phases:
        """The median of each phase. Medians of parts need not add up to the median of the whole."""
        names = Phases.__struct_fields__
        columns = {name: [getattr(step, name) for step in self.steps] for name in names}
        return Phases(**{name: statistics.median(column) for name, column in columns.items()})

    def step_s(self) -> float:
        """Of the median step, waits included."""
        return statistics.median(step.total_s() for step in self.steps)
