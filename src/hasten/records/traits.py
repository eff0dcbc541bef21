"""What the model and the data of a task are, as far as a technique needs to know."""

from typing import Literal

from hasten.records.finding import Place
from hasten.records.record import Record

Family = Literal["attention", "batchnorm", "conv", "dropout", "embedding", "linear", "recurrent"]
Attention = Literal["fused", "hand_written"]
Reduction = Literal["mean", "sum", "coupled", "unknown"]


class ModelTraits(Record, frozen=True, kw_only=True):
    name: str
    parameters: int
    parameter_bytes: int
    families: tuple[Family, ...]
    repeated_blocks: tuple[str, ...]
    """Classes of which a container holds several: compiled or checkpointed alike."""
    attention: tuple[Attention, ...] = ()
    """How attention is computed, where one forward pass told."""
    masks_attention: bool | None = None
    """Whether `torch.nn.functional.scaled_dot_product_attention` was given a mask there; None where
    nobody saw it called."""
    hand_written_attention: Place | None = None
    """Where attention is written by hand."""
    resets_state: bool = False
    """Whether a recurrent state begins anew with each batch."""
    draws_random: bool = False
    """Whether a forward pass in training draws random numbers, as dropout does."""


class DataTraits(Record, frozen=True, kw_only=True):
    kind: Literal["tensors", "map", "iterable", "other"]
    """"tensors": a plain TensorDataset; "map": indexed; "iterable"; "other": not a DataLoader."""
    rows: int | None
    batch_size: int | None
    workers: int
    default_collate: bool
    draws_random: bool | None
    """Whether reading an item drew from a random generator or read differently the second time."""

    def not_in_memory(self) -> str | None:
        """Why its rows cannot be gathered from tensors; None where they can."""
        if self.kind != "tensors":
            return "the data is not a plain TensorDataset"
        if not self.default_collate:
            return "the loader has a collate function of its own"
        return None


class OptimizerTraits(Record, frozen=True, kw_only=True):
    name: str
    implementation: Literal["loop", "foreach", "fused", "other"]
    can_fuse: bool


class Traits(Record, frozen=True, kw_only=True):
    model: ModelTraits
    data: DataTraits
    optimizers: tuple[OptimizerTraits, ...]
    loss_reduction: Reduction
    """Whole batch against its halves, in evaluation mode; "coupled" must never be split."""

    @property
    def couples_batch(self) -> bool:
        return self.loss_reduction == "coupled" or "batchnorm" in self.model.families
