"""What a checkpoint says of itself: the manifest, written last, which makes it whole."""

from hasten.records.plan import RawPart
from hasten.records.record import Record

CHECKPOINT_FORMAT = 1
MODEL = "model.safetensors"
"""The file of a checkpoint that holds the weights alone."""


class Position(Record, frozen=True, kw_only=True):
    """Where a training stands, between two steps."""

    step: int
    """Optimizer steps done."""
    epoch: int
    """Epochs done."""
    batches: int
    """Batches of the present epoch that were consumed; what a loader has fetched ahead is not."""


class StoredFile(Record, frozen=True, kw_only=True):
    name: str
    bytes: int
    sha256: str


class Manifest(Record, frozen=True, kw_only=True):
    format: int
    hasten: str
    torch: str
    created: str
    """In words; nothing is decided by it, since clocks jump."""
    task: str | None
    """None where it was given as an object."""
    seed: int
    plan: dict[str, RawPart]
    position: Position
    batches_per_epoch: int | None
    """None where the loader does not know."""
    healthy: bool
    """Whether every weight is a finite number."""
    weights: dict[str, str]
    """Each weight and buffer of the model with its form, such as ``float32[128, 64]``."""
    optimizers: tuple[str, ...]
    """Each by its class and how many weights it has, such as ``AdamW of 6 weights``."""
    schedulers: tuple[str, ...]
    """Their classes."""
    files: tuple[StoredFile, ...]
