"""Load batches in worker processes."""

from typing import Annotated

import torch
from msgspec import Meta
from msgspec.structs import replace
from torch.utils.data import DataLoader

from hasten.data.ahead.manner import Manner, manner_at_sight
from hasten.data.ahead.workers import WorkersLoader, cannot_foresee
from hasten.host.cores import cores_allowed
from hasten.records.environment import Environment
from hasten.records.loading import WorkerSettings
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.task.traits import draws_random
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

RANDOM = "its items draw random numbers, which would be others in workers"
TRIES = 3


class LoaderWorkersPart(Part, frozen=True, kw_only=True):
    workers: Annotated[int, Meta(ge=1, le=1024)] = 2
    """Processes, in place of as many as the loader had."""


class LoaderWorkersTechnique(Technique[LoaderWorkersPart]):
    name = "loader_workers"
    part = LoaderWorkersPart
    stage = Stage.DATA
    rung = Rung.BITWISE
    answers = ("data-wait",)
    about = "Loads batches in worker processes; same batches, same order."
    helps = "Samples that are decoded, tokenized or read from disk. Not data in memory."
    costs = "A process and its memory for each worker, started anew each epoch."
    limits = (
        "Plain DataLoaders over indexed data whose items draw no random numbers, which in workers "
        "would be others, and that holds no open files, which forked workers would share."
    )
    needs = "As many cores as workers."
    reserved_for = "asked"

    def unsuited(self, traits: Traits) -> str | None:
        if traits.data.kind == "tensors":
            return "the data is in memory, and workers would only copy it"
        if traits.data.kind != "map":
            return "the loader is not a DataLoader of indexed data"
        return RANDOM if traits.data.draws_random else None

    def to_try(self, environment: Environment, traits: Traits) -> list[LoaderWorkersPart]:
        """One for each core, then half as many, and so on."""
        most = max(int(environment.cores_allowed), 1)
        counts = [most >> halvings for halvings in range(TRIES) if most >> halvings]
        return [LoaderWorkersPart(workers=count) for count in counts]

    def apply(self, pipeline: Pipeline, part: LoaderWorkersPart) -> Effect:
        before = pipeline.loader
        settings = WorkerSettings(workers=part.workers, pin=torch.accelerator.is_available())
        reason = _reason_against(before, settings)
        if reason:
            raise CannotApply(reason)
        assert isinstance(before, DataLoader)  # held by _reason_against
        settings = replace(settings, pin=settings.pin or before.pin_memory)
        loader = WorkersLoader(before, settings, manner=Manner())
        pipeline.loader = loader

        def undo() -> None:
            pipeline.loader = before
            loader.close()

        return Effect(
            why=f"{part.workers} workers, {before.num_workers} before",
            undo=undo,
            problem=lambda: loader.notes[0] if loader.in_turn else None,
        )


def _reason_against(loader: object, settings: WorkerSettings) -> str | None:
    reason = cannot_foresee(loader)
    if reason:
        return reason
    assert isinstance(loader, DataLoader)  # held by cannot_foresee
    if settings.workers > cores_allowed():
        allowed = f"{cores_allowed():g} cores that this process may use"
        return (
            f"num_workers={settings.workers} is more than the {allowed}; ask for fewer, or for none"
        )
    held = manner_at_sight(loader)
    if held is not None:
        return held.handles or held.on_device or held.stateful
    random = draws_random(loader.dataset)
    if random is None:
        return "its first item could not be read to see whether it draws random numbers"
    return RANDOM if random else None
