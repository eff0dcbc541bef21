"""How batches are loaded, how fast that was measured to be, and why not otherwise."""

from typing import Literal

from hasten.records.plan import Plan
from hasten.records.record import Record

StartMethod = Literal["fork", "forkserver", "spawn"]
Mode = Literal["own", "resident", "batched", "prefetched", "workers", "threads"]
"""How a loader makes its batches; "own": as the user's loader does."""


class WorkerSettings(Record, frozen=True, kw_only=True):
    """Of a DataLoader that is rebuilt with worker processes."""

    workers: int
    """0: batches are made one after the other in the process itself."""
    prefetch: int = 2
    """Batches that each worker makes ahead."""
    persistent: bool = False
    """Whether workers live on from epoch to epoch; the order stays the same."""
    pin: bool = False
    start: StartMethod | None = None
    """How a worker process comes about; None: as torch does it here."""

    @property
    def ahead(self) -> int:
        """Batches that may be ready or under way."""
        return self.workers * self.prefetch

    def __str__(self) -> str:
        if not self.workers:
            return "no workers"
        words = [f"{self.workers} worker{'s' if self.workers > 1 else ''}"]
        words += [f"{self.prefetch} batches ahead each"]
        words += ["persistent"] if self.persistent else []
        words += ["pinned"] if self.pin else []
        words += [f"started by {self.start}"] if self.start else []
        return ", ".join(words)


class ThreadSettings(Record, frozen=True, kw_only=True):
    """Of a pool of threads that makes whole batches."""

    threads: int
    ahead: int
    """Batches that may be ready or under way."""

    def __str__(self) -> str:
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}, {self.ahead} batches ahead"


class Refused(Record, frozen=True, kw_only=True):
    """A way of loading that is not taken."""

    mode: Mode
    why: str


class Rate(Record, frozen=True, kw_only=True):
    """How fast one way of loading was, with nobody training."""

    mode: Mode
    how: str
    """The setting in words."""
    rows_per_s: float
    spread: float
    """Relative: half of what lies between the fastest and the slowest turn, by the median."""
    turns: int
    seconds_per_batch: float
    worker_bytes: int | None = None
    """Memory that one worker process has for itself; None where there is none, or unknown."""


class LoaderRating(Record, frozen=True, kw_only=True):
    """The outcome of a search among ways of loading."""

    mode: Mode
    """The one that was chosen."""
    workers: WorkerSettings | None = None
    threads: ThreadSettings | None = None
    rows_per_s: float | None
    """None where nothing was measured."""
    spread: float | None
    why: str
    rates: tuple[Rate, ...] = ()
    """All that were measured, the user's own first."""
    refused: tuple[Refused, ...] = ()
    elapsed_s: float = 0.0
    complete: bool = True
    """Whether the search ended by itself, not by its deadline."""
    fell_back: str | None = None
    """Why the way that was chosen was left while it ran; ``mode`` is then "own"."""

    def lines(self) -> tuple[str, ...]:
        """What was chosen and why, then why not each other way."""
        said = [f"{self.mode}: {self.why}"]
        said += [f"fell back: {self.fell_back}"] if self.fell_back else []
        return (*said, *(f"not {each.mode}: {each.why}" for each in self.refused))


class DiskUse(Record, frozen=True, kw_only=True):
    """What making some batches reads from files: first with their files dropped from the kernel's
    memory, as far as that can be done, then once more."""

    batches: int
    files: int
    """That were opened, or were open, and could be told to be dropped."""
    asked_bytes: int | None
    """That were read through system calls, from wherever; None where the system does not say. What
    is mapped into memory is not among them."""
    cold_disk_bytes: int | None
    """Of the first time, those that came from the disk."""
    warm_disk_bytes: int | None
    cold_s: float
    warm_s: float
    waited_s: float | None
    """Of the first time, waiting for the disk, where the kernel counts that."""
    verdict: Literal["disk", "not_disk", "no_files", "unknown"]
    why: str


class LoaderShare(Record, frozen=True, kw_only=True):
    """Of a step: how much shorter it is on batches that are there already."""

    share: float
    low: float
    high: float
    how: str


class DataReport(Record, frozen=True, kw_only=True):
    """What ``hasten profile --data`` says."""

    task: str
    plan: Plan
    """Of the training whose steps were measured; the loader is the task's own."""
    rows_per_s: float | None
    """Of the loader alone, as it is; None where it could not be measured."""
    batch_s: float | None
    share: LoaderShare | None
    rating: LoaderRating
    """What was measured of workers and threads, and what is refused."""
    rates: tuple[Rate, ...]
    """Of all ways, the loader as it is first."""
    refused: tuple[Refused, ...]
    disk: DiskUse | None
    next: tuple[str, ...]
    notes: tuple[str, ...]
    """What could not be measured, and why."""
    elapsed_s: float
