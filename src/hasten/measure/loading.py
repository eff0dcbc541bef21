"""How fast a task's own loader is with nobody training, and what other ways of loading give.

Must run in a process of its own: the loader is iterated, its dataset is read.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.ahead.foresight import Foresight
from hasten.data.ahead.workers import cannot_foresee
from hasten.data.choosing.rating import own_settings, rate_loading
from hasten.data.freezing.freeze import CannotFreeze, freeze
from hasten.data.freezing.frozen import Frozen
from hasten.data.loaders.batched import BatchedLoader, cannot_batch
from hasten.data.loaders.epochs import make_batch
from hasten.data.loaders.order import Order
from hasten.data.loaders.prefetched import PrefetchedLoader
from hasten.data.loaders.resident import ResidentLoader, cannot_reside, too_large_for
from hasten.host.cores import memory_left
from hasten.measure.disk import measure_disk
from hasten.measure.messages import LoadingMeasured
from hasten.records.loading import LoaderRating, Mode, Rate, Refused
from hasten.task import batch as batches

TURNS, TURN_S = 3, 0.7
FREEZING_S = 20.0
SHARE = 0.5
"""Of the memory that is left, for a dataset that is read once and kept."""


def measure_loading(loader: Iterable[Any], device: torch.device, seconds: float) -> LoadingMeasured:
    notes: list[str] = []
    rates, refused, rating = _measured(loader, device, seconds)
    ways, not_possible = _in_memory(loader, device)
    rates += _in_turns(ways, device)
    if not any(each.mode == "own" for each in rates):
        rates = [*_in_turns({"own": loader}, device), *rates]
    disk = None
    if getattr(loader, "num_workers", 0) and cannot_foresee(loader):
        notes.append("the disk was not measured: its workers read where nobody can count")
    else:
        disk = measure_disk(lambda: _one_by_one(loader))
    return LoadingMeasured(
        rating=rating,
        rates=tuple(rates),
        refused=(*not_possible, *refused),
        disk=disk,
        notes=tuple(notes),
    )


def _one_by_one(loader: Any) -> Iterator[Any]:
    """An epoch in this process, whatever workers it has."""
    if cannot_foresee(loader):
        return iter(loader)
    return (make_batch(loader, indices) for indices in Foresight(Order(loader)))


def _measured(
    loader: Any, device: torch.device, seconds: float
) -> tuple[list[Rate], tuple[Refused, ...], LoaderRating]:
    """The loader as it is, workers and threads."""
    if type(loader) is not DataLoader:
        why = f"it is a {type(loader).__name__}, not a plain DataLoader"
        refused = tuple(Refused(mode=mode, why=why) for mode in ("workers", "threads"))
        rating = LoaderRating(mode="own", rows_per_s=None, spread=None, why=why, refused=refused)
        return [], refused, rating
    rating = rate_loading(loader, seconds=seconds, beside_device=device.type != "cpu")
    return list(rating.rates), rating.refused, rating


def _in_memory(
    loader: Any, device: torch.device
) -> tuple[dict[Mode, Iterable[Any]], tuple[Refused, ...]]:
    """Loaders of data in memory, and why there is not each of them."""
    frozen, reason = _frozen(loader)
    ways: dict[Mode, Iterable[Any]] = {}
    reasons: dict[Mode, str] = {}
    batched = reason or cannot_batch(loader, frozen)
    if batched is None:
        made = BatchedLoader(loader, frozen)
        ways["batched"] = made
        ways["prefetched"] = PrefetchedLoader(made, device)
    else:
        reasons["batched"] = reasons["prefetched"] = batched
    if device.type == "cpu":
        reasons["resident"] = "batches are used on the CPU, where data in memory is there already"
        reasons["prefetched"] = "batches are used on the CPU: there is no device to send them to"
        ways.pop("prefetched", None)
    else:
        resident = reason or cannot_reside(loader, frozen) or too_large_for(device, loader, frozen)
        if resident is None:
            ways["resident"] = ResidentLoader(loader, device, frozen)
        else:
            reasons["resident"] = resident
    return ways, tuple(Refused(mode=mode, why=why) for mode, why in reasons.items())


def _frozen(loader: Any) -> tuple[Frozen | None, str | None]:
    if type(loader) is DataLoader and type(loader.dataset) is TensorDataset:
        return None, None
    try:
        return freeze(loader, most_bytes=int(SHARE * memory_left()), limit_s=FREEZING_S), None
    except CannotFreeze as refusal:
        return None, refusal.reason


def _in_turns(ways: dict[Mode, Iterable[Any]], device: torch.device) -> list[Rate]:
    """In this process, interleaved; batches are looked at, as resident ones are only then made."""
    with closing(_Turns(ways, device)) as turns:
        for _ in range(TURNS):
            for mode in ways:
                turns.take(mode)
        return turns.rates()


class _Turns:
    def __init__(self, ways: dict[Mode, Iterable[Any]], device: torch.device) -> None:
        self._sources = {mode: _endless(way) for mode, way in ways.items()}
        self._ways = ways
        self._wait: Callable[[], object] = (
            torch.cuda.synchronize if device.type == "cuda" else lambda: None
        )
        self._turns: dict[Mode, list[tuple[int, int, float]]] = {mode: [] for mode in ways}

    def take(self, mode: Mode) -> None:
        source = self._sources[mode]
        if not self._turns[mode]:
            _look_at(next(source))  # begins the epoch
        self._wait()
        began, rows, count = time.perf_counter(), 0, 0
        while not count or time.perf_counter() - began < TURN_S:
            rows += _look_at(next(source))
            count += 1
        self._wait()
        self._turns[mode].append((rows, count, time.perf_counter() - began))

    def rates(self) -> list[Rate]:
        found = []
        for mode, turns in self._turns.items():
            rates = [rows / seconds for rows, _, seconds in turns]
            typical = statistics.median(rates)
            taken = sum(seconds for _, _, seconds in turns) / sum(count for _, count, _ in turns)
            found.append(
                Rate(
                    mode=mode,
                    how=_how(mode, self._ways[mode]),
                    rows_per_s=typical,
                    spread=(max(rates) - min(rates)) / 2 / typical,
                    turns=len(turns),
                    seconds_per_batch=taken,
                )
            )
        return found

    def close(self) -> None:
        for source in self._sources.values():
            source.close()


def _endless(loader: Iterable[Any]) -> Any:
    while True:
        yield from loader


def _look_at(batch: Any) -> int:
    """Its rows; gathered where they are not yet."""
    if isinstance(batch, batches.RowsOf):
        batch = batch.gather()
    return batches.rows_in(batch)


def _how(mode: Mode, way: Any) -> str:
    if mode != "own":
        return ""
    return str(own_settings(way)) if type(way) is DataLoader else type(way).__name__
