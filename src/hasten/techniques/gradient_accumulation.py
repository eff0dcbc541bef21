"""Compute a batch in pieces, one after the other, and update once for all of them."""

from typing import Annotated

from msgspec import Meta

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.task.traits import normalizes_batches
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class GradientAccumulationPart(Part, frozen=True, kw_only=True):
    steps: Annotated[int, Meta(ge=1, le=1_000_000)] = 2
    """Pieces of a batch. The batch stays as large as it was; each piece is a share of it."""


class GradientAccumulationTechnique(Technique[GradientAccumulationPart]):
    name = "gradient_accumulation"
    part = GradientAccumulationPart
    stage = Stage.ACCUMULATION
    rung = Rung.ROUNDING
    answers = ("memory-peak",)
    about = "Splits each batch into pieces whose gradients add up to the whole batch's."
    helps = "Where a batch does not fit in memory. It never makes a step that fits faster."
    costs = "One forward and backward for each piece; smaller pieces use the device less well."
    limits = (
        "The effective batch stays the same: pieces are weighted by their share of the count, so "
        "that unequal ones and an epoch's last batch are right. Refused where rows of a batch "
        "depend on each other or a forward pass moves something: BatchNorm, pairwise losses, "
        "carried state, counters. How a loss combines rows is probed in evaluation mode, at the "
        "1st, 2nd, 4th, 8th batch and so on; what changes between is noticed late, and what only "
        "training mode adds is not seen. Dropout draws other masks of the same distribution."
    )
    needs = "Any CPU or GPU."
    reserved_for = "asked"

    def unsuited(self, traits: Traits) -> str | None:
        return "the loss or a layer couples the rows of a batch" if traits.couples_batch else None

    def to_try(self, environment: Environment, traits: Traits) -> list[GradientAccumulationPart]:
        return [GradientAccumulationPart(steps=2 << doublings) for doublings in range(3)]

    def apply(self, pipeline: Pipeline, part: GradientAccumulationPart) -> Effect:
        reason = _cannot_split(pipeline)
        if reason:
            raise CannotApply(reason)
        if part.steps == 1:
            raise CannotApply("one piece is the whole batch")
        pipeline.micro_batches = part.steps

        def undo() -> None:
            pipeline.micro_batches = 1

        return Effect(why=lambda: _words(part.steps, pipeline), undo=undo)


def _words(asked: int, pipeline: Pipeline) -> str:
    splits = pipeline.splits
    if splits.batches and splits.pieces < asked:
        return f"batches in up to {splits.pieces} pieces, {asked} were asked for"
    return f"each batch in {asked} pieces"


def _cannot_split(pipeline: Pipeline) -> str | None:
    if pipeline.couples_batch:
        return "the task says that its loss couples the rows of a batch"
    if normalizes_batches(pipeline.model):
        return "BatchNorm couples the rows of a batch: pieces would be another training"
    if pipeline.initial_state is not None and pipeline.state_resets == "epoch":
        return "the state is carried from batch to batch, and pieces have none"
    return None
