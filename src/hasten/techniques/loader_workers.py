"""Load batches in worker processes."""

from typing import Annotated, Any

import torch
from msgspec import Meta
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from hasten.host.cores import cores_allowed
from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.task.traits import draws_random
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class LoaderWorkersPart(Part, frozen=True, kw_only=True):
    workers: Annotated[int, Meta(ge=1)] = 2
    """Processes, in place of as many as the loader had."""


class LoaderWorkersTechnique(Technique[LoaderWorkersPart]):
    name = "loader_workers"
    part = LoaderWorkersPart
    stage = Stage.DATA
    rung = Rung.BITWISE
    answers = ()
    about = "Rebuilds a DataLoader with worker processes; same batches, same order."
    helps = "Samples that are decoded, tokenized or read from disk. Not data in memory."
    costs = "A process and its memory for each worker, started anew each epoch."
    limits = (
        "Plain DataLoaders over indexed data whose items draw no random numbers: in workers those "
        "would be others."
    )
    needs = "As many cores as workers."
    reserved_for = "asked"

    def unsuited(self, traits: Traits) -> str | None:
        if traits.data.kind == "tensors":
            return "the data is in memory, and workers would only copy it"
        return (
            None if traits.data.kind == "map" else "the loader is not a DataLoader of indexed data"
        )

    def to_try(self, environment: Environment, traits: Traits) -> list[LoaderWorkersPart]:
        return []

    def apply(self, pipeline: Pipeline, part: LoaderWorkersPart) -> Effect:
        before = pipeline.loader
        reason = _cannot_rebuild(before, part.workers)
        if reason:
            raise CannotApply(reason)
        assert isinstance(before, DataLoader)  # held by _cannot_rebuild
        pipeline.loader = _rebuild(before, part.workers)

        def undo() -> None:
            pipeline.loader = before

        return Effect(why=f"{part.workers} workers, {before.num_workers} before", undo=undo)


def _cannot_rebuild(loader: object, workers: int) -> str | None:
    if type(loader) is not DataLoader:
        return f"it is a {type(loader).__name__}, not a plain DataLoader"
    if workers > cores_allowed():
        allowed = f"{cores_allowed():g} cores that this process may use"
        return f"num_workers={workers} is more than the {allowed}; ask for fewer, or for none"
    if isinstance(loader.dataset, IterableDataset):
        return "its dataset is iterable, and each worker would go through all of it"
    if not isinstance(loader.batch_sampler, BatchSampler):
        return "it does not make batches by a BatchSampler"
    random = draws_random(loader.dataset)
    if random is None:
        return "its first item could not be read to see whether it draws random numbers"
    return "its items draw random numbers, which would be others in workers" if random else None


def _rebuild(loader: DataLoader[Any], workers: int) -> DataLoader[Any]:
    """With the very same samplers, so that the order stays."""
    return DataLoader(
        loader.dataset,
        batch_sampler=loader.batch_sampler,
        num_workers=workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory or torch.accelerator.is_available(),
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
        multiprocessing_context=loader.multiprocessing_context,
    )
