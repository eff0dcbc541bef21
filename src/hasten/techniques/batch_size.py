"""Take more rows a step, and scale the learning rates with them. Changes the training; only where
it is asked for."""

import math
from typing import Annotated, Any, Literal

from msgspec import Meta
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

TIMES = (2, 4, 8, 16)
"""That are tried."""


class BatchSizePart(Part, frozen=True, kw_only=True):
    times: Annotated[int, Meta(ge=2)] = 2
    """So many times as many rows a step."""
    learning_rate: Literal["linear", "sqrt"] = "linear"
    """All learning rates grow as many times, or by the square root of that."""


class BatchSizeTechnique(Technique[BatchSizePart]):
    name = "batch_size"
    part = BatchSizePart
    stage = Stage.BATCH
    rung = Rung.CHANGES_TRAINING
    answers = ()
    about = "Takes several times as many rows a step, with learning rates scaled to them."
    helps = "Steps so small that starting them costs more than computing them."
    costs = "It is another training: compare the time to a target, never steps per second."
    limits = (
        "Plain DataLoaders over indexed data of that many rows or more, losses that are means "
        "over rows, no schedule of the learning rates. Clipping and weight decay stay as they are; "
        "BatchNorm sees more rows at once."
    )
    needs = "Memory for the larger batch."
    reserved_for = "asked"

    def unsuited(self, traits: Traits) -> str | None:
        if traits.loss_reduction == "coupled":
            return "the loss compares the rows of a batch, and more of them are another loss"
        if traits.loss_reduction != "mean":
            return "the loss could not be shown to be a mean over rows"
        if traits.data.batch_size is None or traits.data.rows is None:
            return "the batches are not made by a DataLoader's batch_size over indexed data"
        if traits.data.rows < TIMES[0] * traits.data.batch_size:
            return f"the data has {traits.data.rows} rows, and a batch {traits.data.batch_size}"
        return None

    def to_try(self, environment: Environment, traits: Traits) -> list[BatchSizePart]:
        """As far as there is a whole batch of rows. Rates of plain SGD grow as the batch does,
        those of optimizers that divide by the gradients' size by its square root."""
        linear = any(each.name == "SGD" for each in traits.optimizers)
        rows, batch = traits.data.rows or 0, traits.data.batch_size or 1
        return [
            BatchSizePart(times=times, learning_rate="linear" if linear else "sqrt")
            for times in TIMES
            if times * batch <= rows
        ]

    def apply(self, pipeline: Pipeline, part: BatchSizePart) -> Effect:
        before = pipeline.loader
        factor = part.times if part.learning_rate == "linear" else math.sqrt(part.times)
        reason = _reason_against(pipeline, part.times)
        if reason:
            raise CannotApply(reason)
        assert isinstance(before, DataLoader)  # held by _reason_against
        loader = _larger(before, part.times)
        pipeline.loader = loader
        groups = [group for each in pipeline.optimizers for group in each.param_groups]
        rates = [group["lr"] for group in groups]
        scaled = [rate * factor for rate in rates]
        for group, rate in zip(groups, scaled, strict=True):
            group["lr"] = rate

        def undo() -> None:
            if pipeline.loader is not loader:
                return
            pipeline.loader = before
            for group, rate, ours in zip(groups, rates, scaled, strict=True):
                # One that the user has changed since is theirs, in the scale of the larger batch.
                group["lr"] = rate if group["lr"] == ours else group["lr"] / factor

        rows = f"{loader.batch_size} rows a step instead of {before.batch_size}"
        normed = any(isinstance(each, _BatchNorm) for each in pipeline.model.modules())
        said = "; BatchNorm sees as many rows at once" if normed else ""
        return Effect(why=f"{rows}, learning rates x {factor:.4g}{said}", undo=undo)


def _reason_against(pipeline: Pipeline, times: int) -> str | None:
    loader = pipeline.loader
    if type(loader) is not DataLoader:
        return f"it is a {type(loader).__name__}, not a plain DataLoader"
    if isinstance(loader.dataset, IterableDataset):
        return "the data is a stream, whose rows nobody counts"
    if type(loader.batch_sampler) is not BatchSampler or loader.batch_size is None:
        return "the loader has a batch sampler of its own"
    if times * loader.batch_size > len(loader.sampler):  # type: ignore[arg-type]
        return f"an epoch has fewer than {times * loader.batch_size} rows"
    groups = [group for each in pipeline.optimizers for group in each.param_groups]
    if pipeline.schedulers or any("initial_lr" in group for group in groups):
        return "the learning rates have a schedule, which was made for the batch as it is"
    if not all("lr" in group for group in groups):
        return "an optimizer has no learning rate to scale"
    return None


def _larger(loader: DataLoader[Any], times: int) -> DataLoader[Any]:
    """The same rows in the same order, by the user's own sampler."""
    assert loader.batch_size is not None  # held by _reason_against
    return DataLoader(
        loader.dataset,
        batch_size=times * loader.batch_size,
        sampler=loader.sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
        in_order=loader.in_order,
    )
