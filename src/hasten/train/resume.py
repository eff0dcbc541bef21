"""Does a checkpoint belong to this training, and can it be gone on with to the bit?"""

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import IterableDataset

from hasten.data.loaders.epochs import (
    EpochStart,
    cannot_repeat,
    cannot_skip,
    draws_between_batches,
    draws_to_make_batches,
    own_states,
    restore_start,
    start_workers,
)
from hasten.errors import HastenError
from hasten.records.checkpoint import Manifest
from hasten.runtime.loading import Epoch
from hasten.runtime.run import Run
from hasten.task.digest import digest
from hasten.task.traits import draws_random
from hasten.train.state import (
    Tree,
    ahead,
    epoch_start,
    plain_name,
    restore_generators,
    weights_of,
)


def form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def forms(run: Run) -> dict[str, str]:
    return {name: form(each) for name, each in weights_of(run.model).items()}


def optimizers_of(run: Run) -> tuple[str, ...]:
    return tuple(_words(each) for each in run.pipeline.optimizers)


def _words(optimizer: Optimizer) -> str:
    counts = " + ".join(str(len(group["params"])) for group in optimizer.param_groups)
    return f"{type(optimizer).__name__} of {counts} weights"


def schedulers_of(run: Run) -> tuple[str, ...]:
    return tuple(type(each).__name__ for each in run.pipeline.schedulers)


def batches_per_epoch(run: Run) -> int | None:
    try:
        return len(run.pipeline.loader)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None  # a stream, or a loader without a length


def refuse_another_task(manifest: Manifest, task: str | None, path: Path) -> None:
    """By its name, before it is built."""
    if None not in (manifest.task, task) and _short(manifest.task) != _short(task):
        raise _does_not_fit(path, f"it is of the task {manifest.task}, and this is {task}")


def refuse_another_training(manifest: Manifest, run: Run, path: Path) -> None:
    """By its weights, optimizers and data."""
    here = forms(run)
    buffers = {plain_name(name) for name, _ in run.model.named_buffers()}
    for name in sorted((manifest.weights.keys() | here.keys()) - buffers):
        there, now = manifest.weights.get(name, "nothing"), here.get(name, "nothing")
        if there != now:
            raise _does_not_fit(path, f"its model has {there} at {name}, and this one {now}")
    if manifest.optimizers != optimizers_of(run):
        there, now = ", ".join(manifest.optimizers), ", ".join(optimizers_of(run))
        raise _does_not_fit(path, f"it was trained by {there}, and this is {now}")
    if manifest.schedulers != schedulers_of(run):
        there, now = (
            ", ".join(each) or "none" for each in (manifest.schedulers, schedulers_of(run))
        )
        raise _does_not_fit(path, f"its schedulers are {there}, and these {now}")
    if manifest.batches_per_epoch != batches_per_epoch(run):
        raise _does_not_fit(
            path,
            f"its epochs have {manifest.batches_per_epoch} batches, and these"
            f" {batches_per_epoch(run)}",
        )


def _short(task: str | None) -> str | None:
    """A file may be named from another folder."""
    return None if task is None else task.rpartition("/")[2]


def _does_not_fit(path: Path, why: str) -> HastenError:
    return HastenError(
        f"{path} is not a checkpoint of this training: {why}.",
        fix="Resume the task that wrote it, or train into another folder.",
    )


def go_on(run: Run, manifest: Manifest, tree: Tree, path: Path) -> tuple[Epoch | None, str | None]:
    """The epoch behind the batches that were consumed, with every random generator where it stood;
    none where the next one has not begun. And what there is to say of it."""
    position, start = manifest.position, epoch_start(tree)
    loader = run.pipeline.loader
    run.epochs_begun = position.epoch + (position.batches > 0)
    if len(start.own) != len(own_states(loader)):
        raise _does_not_fit(path, "its loader had other random generators of its own")
    if not position.batches:
        _refuse_unrepeatable(run, EpochStart(start.random, start.own, position.epoch > 0), path)
        if position.epoch:
            start_workers(loader)
        restore_start(loader, start)  # one that had begun, and gave no batch, begins again
        return None, None
    if start.own and tree["loader"]["ahead"] != ahead(loader):
        raise _does_not_fit(
            path, "its loader draws from a generator of its own, and had another number of workers"
        )
    _refuse_unrepeatable(run, start, path)
    epoch, words = _behind(run, start, position.batches, tree["loader"]["last batch"], path)
    restore_generators(run, tree)
    return epoch, words


def _refuse_unrepeatable(run: Run, start: EpochStart, path: Path) -> None:
    reason = cannot_repeat(run.pipeline.loader, start)
    if reason:
        raise _not_to_the_bit(path, reason)


def _not_to_the_bit(path: Path, reason: str) -> HastenError:
    return HastenError(
        f"{path} cannot be gone on with to the bit: of the loader, {reason}.",
        fix="Draw from torch's, NumPy's or Python's own generators, a sampler at its beginning, and"
        " without workers that live on; or begin anew.",
    )


def _behind(
    run: Run, start: EpochStart, given: int, last: str | None, path: Path
) -> tuple[Epoch, str | None]:
    """Reads the last batch that was consumed once more, to see that it is the same."""
    loader = run.pipeline.loader
    reason, can_compare = cannot_skip(loader), _can_compare(loader)
    if reason is not None and not can_compare and _draws_as_it_goes(loader):
        raise _not_to_the_bit(
            path, "its sampler draws random numbers between those of batches and steps"
        )
    for replay in (False, True) if reason is None else (True,):
        epoch = Epoch(run, start, given - 1, replay=replay)
        batch = next(epoch, None)
        if batch is not None and (last is None or not can_compare or digest(batch) == last):
            why = reason or "without that the last of them is another one"
            were = f"{given:,} batches were" if given > 1 else "1 batch was"
            return epoch, f"{were} loaded again: {why}" if replay else None
    raise HastenError(
        f"{path} cannot be gone on with to the bit: batch {given} of the epoch is another one now.",
        fix="Bring the data back as it was, and let the loader repeat itself for the same seed; or"
        " begin anew.",
    )


def _can_compare(loader: Any) -> bool:
    """Not where making a batch draws from generators that the steps draw from too."""
    dataset = getattr(loader, "dataset", None)
    in_workers = bool(getattr(loader, "num_workers", 0))
    if in_workers or dataset is None or isinstance(dataset, IterableDataset):
        return in_workers
    return draws_random(dataset) is False and not draws_to_make_batches(loader)


def _draws_as_it_goes(loader: Any) -> bool:
    dataset = getattr(loader, "dataset", None)
    return not isinstance(dataset, IterableDataset | None) and draws_between_batches(loader)
