"""The fastest way of loading that is safe for a dataset."""

from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace
from torch.utils.data import DataLoader, Dataset, TensorDataset

from hasten.data.ahead.manner import Manner, manner_of
from hasten.data.ahead.threaded import ThreadedLoader
from hasten.data.ahead.workers import WorkersLoader
from hasten.data.choosing.allowance import Allowance
from hasten.data.choosing.optimized import OptimizedLoader
from hasten.data.choosing.rating import SECONDS, rate_loading
from hasten.data.freezing.freeze import CannotFreeze, freeze
from hasten.data.freezing.frozen import Frozen
from hasten.data.loaders.batched import BatchedLoader, cannot_batch
from hasten.data.loaders.prefetched import PrefetchedLoader
from hasten.data.loaders.resident import (
    LARGEST_SHARE,
    ResidentLoader,
    cannot_reside,
    too_large_for,
)
from hasten.data.loaders.resumable import Resumable
from hasten.errors import HastenError
from hasten.host.cores import memory_left
from hasten.records.loading import LoaderRating, Mode, Refused
from hasten.task.task import training_device

HOST_SHARE = 0.5
"""Of the memory that is left, for a dataset that is read once and kept."""


class DataPipelineOptimizer:
    """Gives for a DataLoader one that yields the same batches in the same order, sooner.

    In this order, whatever is safe for its dataset: (1) kept on the device; (2) in memory, gathered
    a batch at a time and, for CUDA, on its way while the device computes; (3) worker processes or
    threads, whichever of them is measured to be fastest; else the loader itself. ``report`` says
    what was chosen last, and why not the others.
    """

    def __init__(
        self,
        device: torch.device | str | None = None,
        resident_share: float = LARGEST_SHARE,
        memory_bytes: int | None = None,
        seconds: float = SECONDS,
    ) -> None:
        """``device``: where batches are used, the accelerator where there is one. Data may take
        ``resident_share`` of its free memory. A dataset that is read once and kept may take
        ``memory_bytes`` of the host's, or half of what is left. ``seconds``: for reading it, and
        for measuring."""
        if not 0 <= resident_share <= 1:
            raise HastenError(
                f"resident_share={resident_share} is not a share.", fix="Give one from 0 to 1."
            )
        if seconds <= 0:
            raise HastenError(f"seconds={seconds} is no time.", fix="Give more than 0.")
        self.device = torch.device(device) if device is not None else None
        self.resident_share = resident_share
        self.memory_bytes = memory_bytes
        self.seconds = seconds
        self.report: LoaderRating | None = None

    def optimize_dataloader(
        self, loader: DataLoader[Any], *, tell: Callable[[str], None] = lambda message: None
    ) -> Any:
        """The given loader is not changed. What comes back stands for it: its length, its dataset
        and so on are asked of it; ``why`` and ``report`` are its own, and ``state_dict``. Where
        nothing is faster it is the loader itself."""
        choice = _Choice(self, loader, tell)
        found = choice.find()
        self.report = choice.report
        if isinstance(found, Resumable):
            return OptimizedLoader(loader, found, self.report)
        return found


class _Choice:
    """One loader's way through the modes."""

    def __init__(
        self, owner: DataPipelineOptimizer, loader: DataLoader[Any], tell: Callable[[str], None]
    ) -> None:
        self._owner, self._loader, self._tell = owner, loader, tell
        self._device = owner.device or training_device()
        self._refused: list[Refused] = []
        self.report = self._say("own", "nothing else is safe for it")

    def find(self) -> Any:
        if type(self._loader) is not DataLoader:
            kind = type(self._loader).__name__
            self.report = self._say("own", f"it is a {kind}, not a plain DataLoader")
            return self._loader
        frozen, reason = self._frozen()
        found = self._resident(frozen, reason) or self._batched(frozen, reason)
        return found or self._measured()

    def _frozen(self) -> tuple[Frozen | None, str | None]:
        """The dataset read once, or why it may not be; a TensorDataset need not be."""
        if type(self._loader.dataset) is TensorDataset:
            return None, None
        most = self._owner.memory_bytes
        most = int(HOST_SHARE * memory_left()) if most is None else most
        self._tell("reading the dataset, to see whether it can be kept")
        try:
            return freeze(self._loader, most_bytes=most, limit_s=self._owner.seconds), None
        except CannotFreeze as refusal:
            return None, refusal.reason

    def _resident(self, frozen: Frozen | None, reason: str | None) -> Resumable | None:
        if self._device.type == "cpu":
            reason = reason or "batches are used on the CPU, where data in memory is there already"
        share = self._owner.resident_share
        reason = (
            reason
            or cannot_reside(self._loader, frozen)
            or too_large_for(self._device, self._loader, frozen, share=share)
        )
        if reason:
            self._refuse("resident", reason)
            return None
        self.report = self._say("resident", f"{_why_in_memory(frozen)}, and fits the device")
        return ResidentLoader(self._loader, self._device, frozen)

    def _batched(self, frozen: Frozen | None, reason: str | None) -> Resumable | None:
        reason = reason or cannot_batch(self._loader, frozen)
        if reason:
            self._refuse("batched", reason)
            return None
        why = _why_in_memory(frozen)
        batched = BatchedLoader(self._loader, frozen)
        if self._device.type != "cuda":
            self.report = self._say("batched", why)
            return batched
        self.report = self._say("prefetched", f"{why}, and copied while the device computes")
        return PrefetchedLoader(batched, self._device)

    def _measured(self) -> Any:
        """Workers or threads, where they are measured to be faster."""
        loader = self._loader
        manner = manner_of(loader)
        cuda = self._device.type == "cuda"
        rating = rate_loading(
            loader,
            seconds=self._owner.seconds,
            allowance=Allowance.now(),
            manner=manner,
            beside_device=cuda,
            tell=self._tell,
        )
        self.report = _with(rating, self._refused)
        return _built(loader, rating, manner, pin=cuda or loader.pin_memory)

    def _refuse(self, mode: Mode, why: str) -> None:
        self._refused.append(Refused(mode=mode, why=why))

    def _say(self, mode: Mode, why: str) -> LoaderRating:
        refused = tuple(self._refused)
        return LoaderRating(mode=mode, rows_per_s=None, spread=None, why=why, refused=refused)


def _why_in_memory(frozen: Frozen | None) -> str:
    if frozen is None:
        return "the data is in memory"
    return "its items were read, shown to be the same each time, and are kept"


def _built(loader: DataLoader[Any], rating: LoaderRating, manner: Manner, *, pin: bool) -> Any:
    if rating.mode == "workers" and rating.workers is not None:
        return WorkersLoader(loader, replace(rating.workers, pin=pin), manner=manner)
    if rating.mode == "threads" and rating.threads is not None:
        return ThreadedLoader(loader, rating.threads.threads, rating.threads.ahead, manner=manner)
    return loader


def _with(rating: LoaderRating, refused: list[Refused]) -> LoaderRating:
    return replace(rating, refused=(*refused, *rating.refused))


def create_optimized_dataloader(
    dataset: Dataset[Any],
    batch_size: int = 1,
    shuffle: bool = False,
    *,
    sampler: Any = None,
    batch_sampler: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    drop_last: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Any:
    """What ``DataLoader(dataset, batch_size, shuffle, ...)`` yields, in the fastest safe way: see
    ``DataPipelineOptimizer``."""
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=1 if batch_sampler is not None else batch_size,
        shuffle=shuffle or None,
        sampler=sampler,
        batch_sampler=batch_sampler,
        collate_fn=collate_fn,
        drop_last=drop_last,
        generator=generator,
    )
    return DataPipelineOptimizer(device).optimize_dataloader(loader)
