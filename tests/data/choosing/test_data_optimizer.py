"""The choice between ways of loading: the same batches whatever is chosen, and the reasons."""

import io
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)

import hasten
from hasten.data.ahead.manner import Manner
from hasten.data.ahead.workers import WorkersLoader
from hasten.data.choosing.optimized import OptimizedLoader
from hasten.data.loaders.resident import ResidentLoader
from hasten.errors import HastenError
from hasten.records.loading import LoaderRating, WorkerSettings
from torch_state import bits, random_settings

ROWS = 40
CHOSEN = LoaderRating(mode="workers", rows_per_s=None, spread=None, why="for a test")


def watch(loader: Any) -> list[Any]:
    torch.manual_seed(5)
    random.seed(5)
    seen: list[Any] = []
    for _ in range(2):
        for batch in loader:
            seen.append([bits(each) for each in batch])
            torch.rand(2)
        seen.append(random_settings())
    return seen


def optimizer(**options: Any) -> hasten.DataPipelineOptimizer:
    return hasten.DataPipelineOptimizer("cpu", seconds=3, **options)


def reasons(report: LoaderRating | None) -> dict[str, str]:
    assert report is not None
    return {each.mode: each.why for each in report.refused}


class Items(Dataset[Any]):
    """Not a TensorDataset, and the same each time."""

    def __init__(self) -> None:
        self.table = torch.arange(3.0 * ROWS).reshape(ROWS, 3)

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.table[index], index


def test_data_in_memory_is_gathered_a_batch_at_a_time() -> None:
    for dataset in (TensorDataset(torch.randn(ROWS, 3), torch.arange(ROWS)), Items()):
        own = DataLoader(dataset, batch_size=4, shuffle=True)
        before = dict(vars(own))
        asked = optimizer()
        loader = asked.optimize_dataloader(own)
        assert asked.report is loader.report
        assert loader.report.mode == "batched"
        assert "batches are used on the CPU" in reasons(loader.report)["resident"]
        assert watch(loader) == watch(own)
        assert vars(own) == before
        assert (len(loader), loader.dataset, loader.batch_size) == (10, dataset, 4)


def test_a_dataset_larger_than_its_allowance_is_not_kept() -> None:
    own = DataLoader(Items(), batch_size=4, shuffle=True)
    asked = optimizer(memory_bytes=100)
    loader = asked.optimize_dataloader(own)
    assert "batched" in reasons(asked.report)
    assert asked.report is not None
    assert asked.report.mode in ("own", "workers", "threads")
    assert asked.report.rates[0].mode == "own"
    assert watch(loader) == watch(own)


class Augmented(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.table[index] + torch.rand(3), index


class RandomInOne(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.table[index] * (random.random() if index == 17 else 1.0), index


class Counter(Items):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.count += 1
        return self.table[index], self.count


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((torch.full((3,), float(row)), row) for row in range(ROWS))


class Hdf5(Items):
    def __init__(self, path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["rows"] = torch.arange(3.0 * ROWS).reshape(ROWS, 3).numpy()
        self.rows = h5py.File(path)["rows"]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor(self.rows[index]), index


TRAPS = {
    "random augmentation": (Augmented, "random"),
    "random in one item": (RandomInOne, "random"),
    "a counter": (Counter, "read again"),
    "a stream": (Stream, "iterable"),
    "an open HDF5 file": (Hdf5, "h5py"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_left_as_it_is_and_every_refusal_has_its_reason(
    trap: str, tmp_path: Path
) -> None:
    make, reason = TRAPS[trap]
    dataset = make(tmp_path / "rows.h5") if make is Hdf5 else make()  # type: ignore[operator]
    own: DataLoader[Any] = DataLoader(dataset, batch_size=4)
    before = random_settings()
    asked = optimizer()
    assert asked.optimize_dataloader(own) is own
    assert random_settings() == before
    found = reasons(asked.report)
    assert set(found) >= {"resident", "batched", "workers", "threads"}
    assert reason in found["workers"]
    if isinstance(dataset, Counter):
        assert dataset.count == 0


def test_a_loader_of_its_own_class_is_given_back() -> None:
    class Own(DataLoader[Any]):
        pass

    loader = Own(Items())
    asked = optimizer()
    assert asked.optimize_dataloader(loader) is loader
    assert asked.report is not None
    assert asked.report.lines() == ("own: it is a Own, not a plain DataLoader",)


class DiesInWorkers(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 17 and get_worker_info() is not None:
            os.kill(os.getpid(), 9)
        return super().__getitem__(index)


def test_a_way_that_fails_is_left_at_the_same_batch_and_said() -> None:
    own = DataLoader(DiesInWorkers(), batch_size=4, shuffle=True)
    workers = WorkersLoader(own, WorkerSettings(workers=1), manner=Manner())
    loader = OptimizedLoader(own, workers, CHOSEN)
    assert watch(loader) == watch(own)
    assert loader.report.mode == "own"
    assert "ended by signal 9" in (loader.report.fell_back or "")
    assert any(line.startswith("fell back: ") for line in loader.why)


class Broken(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 5:
            raise ValueError("row 5 is broken")
        return super().__getitem__(index)


def test_what_fails_in_the_users_own_way_too_is_the_users_error() -> None:
    own = DataLoader(Broken(), batch_size=4)
    workers = WorkersLoader(own, WorkerSettings(workers=1), manner=Manner())
    batches = iter(OptimizedLoader(own, workers, CHOSEN))
    next(batches)
    with pytest.raises(ValueError, match=r"^row 5 is broken$"):
        next(batches)
    assert next(batches)[1].tolist() == [8, 9, 10, 11]


class NoRoom(ResidentLoader):
    def _batches(self, given: int) -> Iterator[Any]:
        raise torch.OutOfMemoryError("no room on the device")


def test_a_way_that_fails_as_it_begins_is_left_too() -> None:
    own = DataLoader(TensorDataset(torch.randn(ROWS, 3)), batch_size=4, shuffle=True)
    loader = OptimizedLoader(own, NoRoom(own, torch.device("cpu")), CHOSEN)
    assert watch(loader) == watch(own)
    assert loader.report.fell_back == "OutOfMemoryError: no room on the device"


def test_rows_that_stay_on_the_device_come_as_the_list_that_the_loader_gives() -> None:
    own = DataLoader(TensorDataset(torch.randn(ROWS, 3)), batch_size=4, shuffle=True)
    loader = OptimizedLoader(own, ResidentLoader(own, torch.device("cpu")), CHOSEN)
    assert watch(loader) == watch(own)
    assert {type(batch) for batch in loader} == {type(batch) for batch in own} == {list}


def test_a_state_kept_before_a_fall_back_is_that_of_the_same_batch() -> None:
    def make() -> OptimizedLoader:
        own = DataLoader(DiesInWorkers(), batch_size=4, shuffle=True)
        workers = WorkersLoader(own, WorkerSettings(workers=1), manner=Manner())
        return OptimizedLoader(own, workers, CHOSEN)

    torch.manual_seed(3)
    whole = make()
    batches = iter(whole)
    for _ in range(9):
        next(batches)
    kept = io.BytesIO()
    torch.save(whole.state_dict(), kept)
    state = torch.load(io.BytesIO(kept.getvalue()))  # which takes no objects
    expected = [each[1].tolist() for each in batches]
    resumed = make()
    resumed.load_state_dict(state)
    assert [each[1].tolist() for each in resumed] == expected


def test_a_loader_is_made_and_optimized_in_one_call() -> None:
    data = TensorDataset(torch.randn(ROWS, 3))
    loader = hasten.create_optimized_dataloader(data, 4, True, drop_last=True, device="cpu")
    assert watch(loader) == watch(DataLoader(data, 4, True, drop_last=True))
    assert loader.report.mode == "batched"
    batches = torch.utils.data.BatchSampler(range(ROWS), 3, False)
    own = hasten.create_optimized_dataloader(data, batch_sampler=batches, device="cpu")
    assert len(own) == 14


@pytest.mark.parametrize(
    ("options", "message"),
    [({"resident_share": 1.5}, "resident_share=1.5 is not a share"), ({"seconds": 0}, "seconds=0")],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(HastenError, match=message):
        hasten.DataPipelineOptimizer(**options)
