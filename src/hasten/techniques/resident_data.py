"""Keep in-memory training data on the device, and gather batches there."""

import torch
from torch.utils.data import DataLoader

from hasten.data.loaders.resident import (
    ResidentLoader,
    cannot_reside,
    resident_bytes,
    too_large_for,
)
from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class ResidentDataPart(Part, frozen=True, kw_only=True):
    pass


class ResidentDataTechnique(Technique[ResidentDataPart]):
    name = "resident_data"
    part = ResidentDataPart
    stage = Stage.DATA
    rung = Rung.BITWISE
    answers = ("data-wait", "transfer-bound")
    about = (
        "Uploads a TensorDataset once and gathers batches on the device; same batches, same order."
    )
    helps = "Data sets that fit beside the model: no loading, no transfer, no worker process."
    costs = "Device memory for the whole data set, and its upload at the start."
    limits = "Plain TensorDatasets with torch's own samplers and no collate function of their own."
    needs = "A CUDA device."
    instead_of = ("batched_loader", "loader_workers", "overlapped_transfer")

    def unavailable(self, environment: Environment) -> str | None:
        return None if environment.device.kind == "cuda" else "there is no CUDA device"

    def unsuited(self, traits: Traits) -> str | None:
        return traits.data.not_in_memory()

    def to_try(self, environment: Environment, traits: Traits) -> list[ResidentDataPart]:
        return [ResidentDataPart()]

    def apply(self, pipeline: Pipeline, part: ResidentDataPart) -> Effect:
        before = pipeline.loader
        reason = cannot_reside(before) or _does_not_fit(before, pipeline.device)
        if reason:
            raise CannotApply(reason)
        assert isinstance(before, DataLoader)  # held by cannot_reside
        try:
            pipeline.loader = ResidentLoader(before, pipeline.device)
        except torch.OutOfMemoryError as error:
            raise CannotApply("the device ran out of memory while it was uploaded") from error

        def undo() -> None:
            pipeline.loader = before

        size = resident_bytes(before) / 2**20
        return Effect(why=f"{size:,.0f} MiB of rows on {pipeline.device}", undo=undo)


def _does_not_fit(loader: object, device: torch.device) -> str | None:
    if device.type != "cuda":
        return "there is no CUDA device"
    assert isinstance(loader, DataLoader)  # held by cannot_reside
    return too_large_for(device, loader)
