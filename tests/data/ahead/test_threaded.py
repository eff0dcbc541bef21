"""Threads against the DataLoader that they load for: batches, order, random numbers, no leaks."""

import random
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from hasten.data.ahead.manner import Manner
from hasten.data.ahead.threaded import THREAD_NAME, ThreadedLoader, cannot_thread
from hasten.errors import HastenError
from torch_state import bits, random_settings

ROWS = 22


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3,), float(index)), index


class Slow(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.05 if index == 0 else 0)
        return super().__getitem__(index)


def our_threads() -> list[str]:
    """A DataLoader with workers has a thread too, which torch does not wait for."""
    names = (each.name for each in threading.enumerate())
    return [each for each in names if each.startswith(THREAD_NAME)]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert our_threads() == []


def watch(loader: Any) -> list[Any]:
    torch.manual_seed(5)
    random.seed(5)
    seen: list[Any] = []
    for _ in range(3):
        for batch in loader:
            seen.append([bits(each) for each in batch])
            torch.rand(2)
        seen.append(random_settings())
    return seen


@pytest.mark.parametrize("own", [0, 1], ids=["no workers", "workers"])
def test_the_batches_and_the_random_numbers_are_those_of_the_loader(own: int) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Slow(), batch_size=4, shuffle=True, num_workers=own)

    loader = ThreadedLoader(make(), threads=3, ahead=6, manner=Manner())
    assert loader.ahead == 6
    assert watch(loader) == watch(make())
    assert loader.notes == []


def test_an_epoch_that_is_left_early_ends_its_threads() -> None:
    loader = ThreadedLoader(DataLoader(Items(), batch_size=2), threads=2, ahead=4)
    for _ in loader:
        assert our_threads()
        break
    assert our_threads() == []
    batches = iter(loader)
    next(batches)
    assert our_threads()
    del batches
    assert our_threads() == []


class Broken(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 5:
            raise ValueError("row 5 is broken")
        return super().__getitem__(index)


def test_what_a_thread_raises_has_its_own_traceback_and_the_epoch_can_go_on() -> None:
    loader = ThreadedLoader(DataLoader(Broken(), batch_size=4), threads=2, ahead=4)
    batches = iter(loader)
    next(batches)
    with pytest.raises(ValueError, match="row 5 is broken") as raised:
        next(batches)
    assert 'raise ValueError("row 5 is broken")' in "".join(
        traceback.format_exception(raised.value)
    )
    assert [each[1].tolist()[0] for each in batches] == [8, 12, 16, 20]


class Random(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(3), index


class Counter(Items):
    def __init__(self) -> None:
        self.count = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.count += 1
        return torch.full((3,), float(index)), index


class OpensLate(Items):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.file is None:
            self.file = self.path.open("rb")
        self.file.seek(index)
        return torch.tensor(list(self.file.read(3))), index


BUFFER = np.zeros(3)


class SharesABuffer(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        np.copyto(BUFFER, index)
        return torch.from_numpy(BUFFER.copy()), index


class CleansABuffer(Items):
    """After each item it is as it was before."""

    def __init__(self) -> None:
        self.buffer = np.zeros(3)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        found = torch.from_numpy(np.add(self.buffer, index, out=self.buffer).copy())
        self.buffer.fill(0)
        return found, index


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (Random(), "draw random numbers"),
        (SharesABuffer(), "or what it reads from"),
        (CleansABuffer(), "writes to self.buffer, which lives on"),
        (Counter(), "changes the dataset itself"),
        (OpensLate(Path(__file__)), "reading its items opens files that it keeps"),
    ],
    ids=[
        "random",
        "a buffer outside",
        "a buffer that is cleaned",
        "a counter that shows in no item",
        "opens its file late",
    ],
)
def test_what_two_threads_may_not_read_at_once_is_refused(
    dataset: Dataset[Any], reason: str
) -> None:
    loader = DataLoader(dataset, batch_size=4)
    found = cannot_thread(loader)
    assert found is not None
    assert reason in found
    with pytest.raises(HastenError, match="cannot be given threads"):
        ThreadedLoader(loader, threads=2, ahead=4)


def test_an_epoch_goes_on_in_another_loader_where_it_was_left() -> None:
    def make() -> ThreadedLoader:
        own = DataLoader(Items(), batch_size=4, shuffle=True)
        return ThreadedLoader(own, threads=2, ahead=4, manner=Manner())

    torch.manual_seed(3)
    whole = make()
    batches = iter(whole)
    next(batches), next(batches)
    state = whole.state_dict()
    expected = [[each[1].tolist() for each in batches], random_settings()]
    torch.manual_seed(99)
    resumed = make()
    resumed.load_state_dict(state)
    assert [[each[1].tolist() for each in resumed], random_settings()] == expected
