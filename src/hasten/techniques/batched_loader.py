"""Fetch in-memory tensors a batch at a time instead of row by row."""

from torch.utils.data import DataLoader

from hasten.data.loaders.batched import BatchedLoader, cannot_batch
from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class BatchedLoaderPart(Part, frozen=True, kw_only=True):
    pass


class BatchedLoaderTechnique(Technique[BatchedLoaderPart]):
    name = "batched_loader"
    part = BatchedLoaderPart
    stage = Stage.DATA
    rung = Rung.BITWISE
    answers = ("data-wait",)
    about = "Gathers a whole batch of in-memory tensors at once; same batches, same order."
    helps = "In-memory data that a DataLoader reads row by row and stacks again."
    costs = "Nothing."
    limits = "Plain TensorDatasets without a collate function, whose tensors are not written to."
    needs = "Any CPU or GPU."
    instead_of = ("loader_workers",)

    def unsuited(self, traits: Traits) -> str | None:
        return traits.data.not_in_memory()

    def to_try(self, environment: Environment, traits: Traits) -> list[BatchedLoaderPart]:
        return [BatchedLoaderPart()]

    def apply(self, pipeline: Pipeline, part: BatchedLoaderPart) -> Effect:
        before = pipeline.loader
        reason = cannot_batch(before)
        if reason:
            raise CannotApply(reason)
        assert isinstance(before, DataLoader)  # held by cannot_batch
        pipeline.loader = BatchedLoader(before)

        def undo() -> None:
            pipeline.loader = before

        size = getattr(before.batch_sampler, "batch_size", before.batch_size)
        return Effect(why=f"batches of {size} gathered at once", undo=undo)
