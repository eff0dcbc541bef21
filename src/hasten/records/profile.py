"""Where the time and the memory of a step go, as ``hasten profile`` tells it."""

from typing import Literal

from hasten.records.environment import Environment
from hasten.records.finding import Finding, Place
from hasten.records.measurement import Measurement
from hasten.records.plan import Plan
from hasten.records.record import Record
from hasten.records.scan import CodeCost
from hasten.records.traits import Traits

SyncKind = Literal[
    "item", "bool", "cpu", "numpy", "tolist", "print", "mask", "nonzero", "copy", "other"
]
"""What the host waits for. "nonzero" is any result whose size depends on values; "copy" brings
values of the host to the device."""
Limit = Literal[
    "input-bound",
    "sync-bound",
    "launch-bound",
    "memory-bound",
    "compute-bound",
    "optimizer-bound",
    "host-bound",
    "recurrent",
    "balanced",
]
"""What a step's time is bound by."""


class SyncSite(Record, frozen=True, kw_only=True):
    """A line that makes the host wait for the device, or would if the task were on one."""

    place: Place
    kind: SyncKind
    code: str
    """The line's own text."""
    per_step: float
    cost_s: float | None
    """Seconds per step that the host spent in it; None where that could not be timed, as within a
    backward pass."""


class Launches(Record, frozen=True, kw_only=True):
    """What one step asks of the device."""

    per_step: float
    """Kernels and copies; on a CPU, operations."""
    device_s: float
    """Seconds per step that the device computes; on a CPU, those within operations."""
    step_s: float
    """Seconds per step of the same steps, by the clock."""
    slowest: dict[str, float]
    """The few kernels that take most, each with its seconds per step."""


class Ceilings(Record, frozen=True, kw_only=True):
    """The most that this machine was measured to do, just before."""

    flops_per_s: dict[str, float]
    """Of a large matrix product, by the type it is computed in: "fp32", "tf32", "bf16"."""
    bytes_per_s: float
    """Of a large copy, read and written bytes together."""
    launch_s: float
    """Of one of the smallest operations there are, among many."""


class Work(Record, frozen=True, kw_only=True):
    """Arithmetic of a step against the ceiling of the type that it is computed in."""

    flops: float
    """Of matrix products, convolutions and attention, forward and backward, per step."""
    flops_per_s: float
    computed_in: str
    share: float
    """Of the step that this arithmetic would take at the ceilings."""
    fastest: str
    """The type with the highest ceiling here."""
    moved_bytes: float
    """That all other operations of these read and write, each by itself, per step."""
    moved_share: float
    """Of the step that moving them would take at the ceiling."""


class Bound(Record, frozen=True, kw_only=True):
    """How many times faster steps are without something, measured or, if need be, reckoned."""

    without: Literal["loader", "syncs", "optimizer"]
    ratio: float
    low: float
    high: float
    how: str
    """In words: what was left out and how."""


class Allocation(Record, frozen=True, kw_only=True):
    place: Place | None
    """None where it was allocated by no line of the user's."""
    code: str
    """The line's own text; where there is no place, what was being done."""
    held_bytes: int
    """Of what was allocated there, alive at the peak."""


class PeakMemory(Record, frozen=True, kw_only=True):
    """Who holds the memory of tensors at the peak of a step; the parts add up to it."""

    peak_bytes: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    other_bytes: int
    largest: tuple[Allocation, ...]
    """The lines that allocated most of the activations and of the rest."""


class ProfileParts(Record, frozen=True, kw_only=True):
    """What was measured of one plan, as far as it could be; ``notes`` say why something is not."""

    measurement: Measurement
    syncs: tuple[SyncSite, ...] = ()
    launches: Launches | None = None
    ceilings: Ceilings | None = None
    work: Work | None = None
    memory: PeakMemory | None = None
    bounds: tuple[Bound, ...] = ()
    trace: str | None = None
    """The file that holds some steps, where one was asked for."""
    notes: tuple[str, ...] = ()


class Diagnosis(Record, frozen=True, kw_only=True):
    """What is made of the measured parts."""

    limit: Limit
    why: str
    next: tuple[str, ...]
    bounds: tuple[Bound, ...]
    """Those that were measured, and those that can be reckoned."""
    findings: tuple[Finding, ...]


class ProfileReport(Record, frozen=True, kw_only=True):
    task: str
    plan: Plan
    limit: Limit
    why: str
    """The figure behind ``limit``, in one sentence."""
    next: tuple[str, ...]
    """What to do about it, first things first."""
    environment: Environment
    traits: Traits
    measurement: Measurement
    syncs: tuple[SyncSite, ...]
    launches: Launches | None
    ceilings: Ceilings | None
    work: Work | None
    """None where nothing of it was counted. What is None has its reason in ``notes``."""
    memory: PeakMemory | None
    bounds: tuple[Bound, ...]
    findings: tuple[Finding, ...]
    code: tuple[CodeCost, ...]
    """What a scan of the task's files points at, what costs most first."""
    notes: tuple[str, ...]
    """What could not be measured, and why."""
    trace: str | None
    elapsed_s: float
