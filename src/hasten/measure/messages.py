"""What we ask of a worker process and what it answers."""

import signal
from typing import ClassVar, Literal

import msgspec

from hasten.records.applied import Applied
from hasten.records.environment import Environment
from hasten.records.finding import Place
from hasten.records.loading import DiskUse, LoaderRating, Rate, Refused
from hasten.records.measurement import Measurement, Memory
from hasten.records.plan import Plan, Rung
from hasten.records.profile import Bound, Ceilings, Launches, PeakMemory, SyncSite
from hasten.records.traits import Reduction, Traits
from hasten.records.trial import Offer

DUMP_STACKS = signal.SIGUSR2
"""On this signal a worker writes to its log where every thread stands, whatever it is doing."""


class Request(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    doing: ClassVar[str] = "was measured"
    """Of the task meanwhile."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class Describe(Request, frozen=True, kw_only=True):
    """Import, build, run one step; then say what this task is."""

    doing = "was built and run for one step"
    task: str
    seed: int
    plans: dict[str, Plan] = msgspec.field(default_factory=dict)
    """By the files that they were read from: to be checked against the techniques known there."""


class Described(Reply, frozen=True, kw_only=True):
    environment: Environment
    traits: Traits
    offers: tuple[Offer, ...]
    levels: dict[str, Plan]
    """What each optimization level comes to, by its name."""
    rungs: dict[str, Rung]
    """Of every technique that is known there."""
    in_evaluation: tuple[str, ...]
    """Those that act on a model which is not trained."""
    schema: bytes
    """JSON Schema of a recipe with the techniques that are known there."""
    task_place: Place | None
    model_place: Place | None
    sources: dict[str, str]
    """Digests of the files of the user's own that were imported for the task and its first step."""
    sets_variables: bool
    """Whether the task changes the environment of its process, which libraries may read late."""


class Start(Request, frozen=True, kw_only=True):
    """Build the task anew and apply a plan."""

    doing = "was built"
    task: str
    plan: Plan
    seed: int
    proof: Rung | None = None
    """For a trace: deterministic kernels and, but for a bitwise one, dropout off."""
    evaluated_rows: int | None = None
    """Steps are calls of the model in evaluation, of so many rows; 0: of the task's batch."""
    watch_masks: bool = False
    """Count what dropout layers keep, for ``Repeat``."""
    edited: dict[str, str] = msgspec.field(default_factory=dict)
    """Source files, and the files that are read in their place. All of a process's life."""


class Started(Reply, frozen=True, kw_only=True):
    applied: tuple[Applied, ...]


class DigestState(Request, frozen=True, kw_only=True):
    """Of what was started, as it is: right after that, before step 1."""


class StateDigested(Reply, frozen=True, kw_only=True):
    state: dict[str, str]
    """Digest of every tensor, of the optimizers and of the random generators."""


class WatchLines(Request, frozen=True, kw_only=True):
    """Import and build the task and run some steps: which lines of these files run?"""

    task: str
    seed: int
    files: tuple[str, ...]
    steps: int
    log: str
    """A file to note them in: processes of a loader run lines too."""


class LinesRan(Reply, frozen=True, kw_only=True):
    lines: dict[str, tuple[int, ...]]
    """Of each of the files; none where it was not even imported."""


class Warm(Request, frozen=True, kw_only=True):
    doing = "ran its first steps"
    steps: int


class Warmed(Reply, frozen=True, kw_only=True):
    elapsed_s: float
    step_s: float
    """Median of the steps after the first."""
    applied: tuple[Applied, ...]
    threads: tuple[int, ...]
    """The busiest of the process, where they may be placed on cores; else none."""
    ahead: int = 0
    """Batches that its loader may get ahead by between two blocks."""
    has_workers: bool = False
    """Whether its loader has worker processes, which may start anew with each epoch."""
    device: str = "cpu"


class TimeBlock(Request, frozen=True, kw_only=True):
    """Some steps unmeasured, to use up what the loader got ahead by, then some measured."""

    steps: int


class Block(Reply, frozen=True, kw_only=True):
    elapsed_s: float
    rows: int


class MeasurePhases(Request, frozen=True, kw_only=True):
    steps: int


class Measured(Reply, frozen=True, kw_only=True):
    measurement: Measurement


class FindSyncs(Request, frozen=True, kw_only=True):
    """Warm up, then watch some steps."""

    steps: int


class SyncsFound(Reply, frozen=True, kw_only=True):
    sites: tuple[SyncSite, ...]


class MeasurePeak(Request, frozen=True, kw_only=True):
    """Follow what the steps of a run allocate."""


class PeakMeasured(Reply, frozen=True, kw_only=True):
    memory: PeakMemory


class ExportTrace(Request, frozen=True, kw_only=True):
    """Write a few steps of a run to a file, for others to show."""

    path: str


class TraceExported(Reply, frozen=True, kw_only=True):
    steps: int


class MeasureBounds(Request, frozen=True, kw_only=True):
    """What steps take without the loader, and without the optimizer."""


class BoundsMeasured(Reply, frozen=True, kw_only=True):
    bounds: tuple[Bound, ...]


class MeasureLoading(Request, frozen=True, kw_only=True):
    """Load with nobody training, by the loader as it is and by other ways; ends this worker's use
    for anything else."""

    seconds: float
    """For the search among workers and threads."""


class LoadingMeasured(Reply, frozen=True, kw_only=True):
    rating: LoaderRating
    rates: tuple[Rate, ...]
    refused: tuple[Refused, ...]
    disk: DiskUse | None
    notes: tuple[str, ...]


class CountLaunches(Request, frozen=True, kw_only=True):
    pass


class LaunchesCounted(Reply, frozen=True, kw_only=True):
    launches: Launches


class CountWork(Request, frozen=True, kw_only=True):
    pass


class WorkCounted(Reply, frozen=True, kw_only=True):
    flops: dict[str, float]
    """Of a step, by the type that they are computed in."""
    moved_bytes: float


class MeasureCeilings(Request, frozen=True, kw_only=True):
    pass


class CeilingsMeasured(Reply, frozen=True, kw_only=True):
    ceilings: Ceilings


class ReadOutcome(Request, frozen=True, kw_only=True):
    """What became of the run since it was warm."""


class OutcomeRead(Reply, frozen=True, kw_only=True):
    memory: Memory
    applied: tuple[Applied, ...]


class ReadLatencies(Request, frozen=True, kw_only=True):
    """Of a model in evaluation: every call that was timed by itself so far."""


class LatenciesRead(Reply, frozen=True, kw_only=True):
    seconds: tuple[float, ...]
    rows: int
    """Of each call."""
    with_loss: bool
    """Whether the task's own forward was called, which computes the loss too."""


class DigestData(Request, frozen=True, kw_only=True):
    """Digests of what the loader alone yields."""

    epochs: int
    limit_s: float


class DataDigested(Reply, frozen=True, kw_only=True):
    batches: tuple[str, ...]
    after: str
    """Digest of the random generators afterwards."""
    complete: bool


class Trace(Request, frozen=True, kw_only=True):
    """Run a few optimizer steps of a plan built for proof; write or compare every gradient."""

    path: str
    role: Literal["baseline", "candidate"]
    """The baseline writes the trace and measures its own sensitivity, the candidate compares."""
    rung: Rung
    """What is to be equal to the bit needs no sensitivity."""
    reduction: Reduction
    """How the loss combines rows: "mean" and "sum" may be split, the others may not."""
    epoch: int | None = None
    """Batches in an epoch, as the baseline found; 0: leave its end out; None: find out."""


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Of the gradients or the updates of one step: norms by parameter name."""

    size: dict[str, float]
    sensitivity: dict[str, float]
    unsteadiness: dict[str, float]
    """By how much the baseline differs from itself."""
    resolution: dict[str, float]
    fp64_error: dict[str, float]
    """Empty where the model does not run in fp64."""


class BaselineTraced(Reply, frozen=True, kw_only=True):
    losses: tuple[float, ...]
    schedule: tuple[tuple[float, ...], ...]
    """After each step: learning rates of all groups, and how often each scheduler stepped."""
    loss_sensitivity: tuple[float, ...]
    quantities: dict[str, Sensitivity]
    """By "gradients 1", "updates 1", "buffers 1", "gradients 2", ...; none, as of losses, where
    all is to be equal to the bit."""
    epsilon: float
    repeats: bool
    """Whether the baseline, run twice, gave the same bits."""
    end: dict[str, str]
    """Digests of the whole state after the steps."""
    steps: tuple[int, ...]
    """Micro-batches of each optimizer step."""
    epoch: int
    """Batches in an epoch; 0 where its end is not in the trace."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    norms: dict[str, float]
    fp64_error: dict[str, float]


class CandidateTraced(Reply, frozen=True, kw_only=True):
    losses: tuple[float, ...]
    schedule: tuple[tuple[float, ...], ...]
    quantities: dict[str, Difference]
    missing: tuple[str, ...]
    """Parameters with a gradient on one side only, or that are not there."""
    first_unequal: str
    """A quantity with an unequal bit; empty where there is none."""
    end: dict[str, str]
    epoch: int
    did_not_run: tuple[str, ...]
    """Techniques that turned out not to have taken part."""


class Repeat(Request, frozen=True, kw_only=True):
    """One step again and again, with the same batch and weights."""

    count: int
    seed: int
    limit_s: float


class MaskedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What a dropout layer did, in each repeat."""

    rate: float
    """Of keeping."""
    kept: tuple[int, ...]
    seen: tuple[int, ...]
    """Elements, or channels, that were not zero before."""
    prints: tuple[int, ...]
    """Fingerprints of the masks."""


class Repeated(Reply, frozen=True, kw_only=True):
    values: dict[str, tuple[float, ...]]
    """"loss", and norms of gradients by parameter name."""
    layers: dict[str, MaskedLayer]
    applied: tuple[Applied, ...]


class TrainSeed(Request, frozen=True, kw_only=True):
    """A short training from a seed of its own, then an evaluation where that is asked for."""

    task: str
    plan: Plan
    seed: int
    least: int
    most: int
    """Steps. Between these it ends with an epoch."""
    limit_s: float
    """Of the steps after the first; where it is spent there are fewer of them."""
    evaluates: bool = True


class SeedTrained(Reply, frozen=True, kw_only=True):
    start: dict[str, str]
    """Digests of the state before step 1."""
    losses: tuple[float | None, ...]
    """Of each step; None where it was not finite."""
    figures: dict[str, float | None]
    """Of the evaluation."""
    applied: tuple[Applied, ...]
    elapsed_s: float
    device: str
    """That it was trained on."""


class TrainToTarget(Request, frozen=True, kw_only=True):
    """A training from a seed of its own, looked at each time that so many more rows are done; it
    ends where the target is reached, or something is not finite."""

    task: str
    plan: Plan
    seed: int
    every_rows: int
    checkpoints: int
    target: dict[str, float] | None = None
    """None: there is none, and all checkpoints are gone to."""
    limit_s: float
    """Where it is spent the training ends, wherever it is."""


Ended = Literal["in_the_end", "reached", "not_finite", "out_of_time"]


class TargetTrained(Reply, frozen=True, kw_only=True):
    course: tuple[dict[str, float], ...]
    """At each checkpoint: the training loss since the last one, and the evaluation's figures."""
    rows: tuple[int, ...]
    """Done at each checkpoint."""
    higher: tuple[str, ...]
    """Figures that are the better the higher they are."""
    ended: Ended
    applied: tuple[Applied, ...]


class TrainFor(Request, frozen=True, kw_only=True):
    """Train from the beginning, or go on from the checkpoint in the folder, and save the end."""

    task: str
    plan: Plan
    seed: int
    steps: int
    """Of the whole training."""
    folder: str
    resume: bool


class Trained(Reply, frozen=True, kw_only=True):
    state: dict[str, str]
    """Digests of all that the last checkpoint holds."""
    applied: tuple[Applied, ...]
    batches_per_epoch: int | None
    """None where the loader does not know."""


class Failed(Reply, frozen=True, kw_only=True):
    """The request could not be done. ``kind`` tells the user's errors from a technique's."""

    kind: Literal["error", "out_of_memory", "raised", "crashed", "hung"]
    """"error" is mendable by the user; "raised" is any other exception, of a process that lives;
    "crashed" is the end of one."""
    what: str
    fix: str = ""
    detail: str = ""


AnyRequest = (
    Describe
    | Start
    | DigestState
    | WatchLines
    | Warm
    | TimeBlock
    | MeasurePhases
    | ReadOutcome
    | FindSyncs
    | ReadLatencies
    | MeasurePeak
    | ExportTrace
    | MeasureBounds
    | MeasureLoading
    | CountLaunches
    | CountWork
    | MeasureCeilings
    | DigestData
    | Trace
    | Repeat
    | TrainSeed
    | TrainToTarget
    | TrainFor
)
AnyReply = (
    Described
    | Started
    | StateDigested
    | LinesRan
    | Warmed
    | Block
    | Measured
    | OutcomeRead
    | SyncsFound
    | LatenciesRead
    | PeakMeasured
    | TraceExported
    | BoundsMeasured
    | LoadingMeasured
    | LaunchesCounted
    | WorkCounted
    | CeilingsMeasured
    | DataDigested
    | BaselineTraced
    | CandidateTraced
    | Repeated
    | SeedTrained
    | TargetTrained
    | Trained
    | Failed
)
