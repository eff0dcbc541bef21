"""Datasets that a copy of their items would change: each is read as it is, or refused by name."""

import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from hasten.data.freezing.freeze import CannotFreeze, freeze
from hasten.data.loaders.batched import BatchedLoader
from torch_state import random_settings

ROWS = 500
MiB = 2**20
COUNTED = 0


class Rows(Dataset[Any]):
    """What the traps have in common: a table, which is no trap."""

    def __init__(self) -> None:
        self.table = torch.arange(ROWS * 3.0).reshape(ROWS, 3)

    def __len__(self) -> int:
        return ROWS


class Augmented(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return self.table[index] + torch.rand(3)


class RandomInOneItem(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return self.table[index] * (random.random() if index == 317 else 1.0)


class HiddenInOneItem(Rows):
    """Drawn by a name that no reader knows, without moving a generator of the process."""

    def __getitem__(self, index: int) -> Tensor:
        with open("/dev/urandom", "rb") as file:
            noise = int.from_bytes(file.read(4)) if index == 317 else 0
        return self.table[index] + noise


class DrawsForNothing(Rows):
    def __getitem__(self, index: int) -> Tensor:
        torch.rand(1)
        return self.table[index]


class DrawsInDisguise(Rows):
    def __getitem__(self, index: int) -> Tensor:
        rows = torch.zeros(1, 1, 2)  # what draws here has a name that no reader knows
        nn.functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.5)
        return self.table[index]


class SeedsEachItem(Rows):
    """Always the same items; but whoever draws after it would draw something else."""

    def __getitem__(self, index: int) -> Tensor:
        np.random.seed(index)
        return self.table[index]


class Counter(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __getitem__(self, index: int) -> Tensor:
        self.asked += 1
        return self.table[index] + self.asked


class CountsForNothing(Counter):
    def __getitem__(self, index: int) -> Tensor:
        self.asked += 1
        return self.table[index]


class HiddenCounter(Rows):
    """Written to through another name, which reading the code does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.state = {"asked": 0}

    def __getitem__(self, index: int) -> Tensor:
        for state in [self.state]:
            state["asked"] += 1
        return self.table[index]


class WritesToItsTable(Rows):
    def __getitem__(self, index: int) -> Tensor:
        row = self.table[index]
        row += 1
        return row.clone()


class CountsOutside(Rows):
    def __getitem__(self, index: int) -> Tensor:
        global COUNTED
        COUNTED += 1
        return self.table[index] + COUNTED


class Remembers(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, Tensor] = {}

    def __getitem__(self, index: int) -> Tensor:
        if index not in self.seen:
            self.seen[index] = self.table[index]
        return self.seen[index]


class TellsTheTime(Rows):
    def __getitem__(self, index: int) -> tuple[Tensor, float]:
        return self.table[index], time.time() // 3600


class TellsTheDay(Rows):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.table[index], datetime.now().day


class TellsTheProcess(Rows):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.table[index], os.getpid()


class OwnGenerator(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> Tensor:
        return self.table[index] + float(self.rng.normal())


class Identified(Rows):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.table[index], uuid.uuid4().int % 7


class RandomFlip:
    """As a library has it, in an attribute of the dataset."""

    def __call__(self, row: Tensor) -> Tensor:
        return row.flip(0)


class Transformed(Rows):
    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.table[index])


def jitter(row: Tensor) -> Tensor:
    return row + torch.randn_like(row)


class Composed:
    def __init__(self, *steps: Any) -> None:
        self.steps = steps

    def __call__(self, row: Tensor) -> Tensor:
        for step in self.steps:
            row = step(row)
        return row


class Objects(Rows):
    def __getitem__(self, index: int) -> Any:
        return {"row": self.table[index], "name": f"number {index}"}


class OtherObjects(Rows):
    def __getitem__(self, index: int) -> Any:
        return object()


class Ragged(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return torch.ones(1 + index // 400)


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield torch.ones(2)


class Unlimited(Dataset[Tensor]):
    def __getitem__(self, index: int) -> Tensor:
        return torch.ones(2)


class Many(Rows):
    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        return [row - self.table[indices].mean() for row in self.table[indices]]

    def __getitem__(self, index: int) -> Tensor:
        return self.table[index]


class NamedInWords(Rows):
    def __getitem__(self, index: int) -> Any:
        return self.table[index] + getattr(torch, "rand")(3)  # noqa: B009


class Evaluated(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return self.table[index] + eval("1")


class Slow(Rows):
    def __getitem__(self, index: int) -> Tensor:
        while index == 100:
            pass
        return self.table[index]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "random augmentation": (Augmented, "rand may draw random numbers"),
    "random in one item of 500": (RandomInOneItem, "random may draw random numbers"),
    "random in one item, unseen": (HiddenInOneItem, "item 317 is another one"),
    "drawing for nothing": (DrawsForNothing, "rand may draw random numbers"),
    "drawing in disguise": (DrawsInDisguise, "reading its items draws random numbers"),
    "seeding": (SeedsEachItem, "seed may draw random numbers"),
    "a counter": (Counter, "assigns to self.asked"),
    "a counter that nothing depends on": (CountsForNothing, "assigns to self.asked"),
    "a counter under another name": (HiddenCounter, "reading its items changes HiddenCounter"),
    "writing to its table": (WritesToItsTable, "reading its items changes WritesToItsTable"),
    "a counter outside": (CountsOutside, "assigns to COUNTED outside of it"),
    "a memory": (Remembers, "assigns to self.seen[index]"),
    "the time": (TellsTheTime, "time tells the time"),
    "the day": (TellsTheDay, "now tells the time"),
    "the process": (TellsTheProcess, "getpid depends on the process"),
    "a generator of its own": (OwnGenerator, "holds a random generator, a Generator"),
    "a number nobody has had": (Identified, "uuid4 may draw random numbers"),
    "a transform by its name": (lambda: Transformed(RandomFlip()), "RandomFlip"),
    "a transform by its code": (lambda: Transformed(jitter), "randn_like may draw"),
    "a transform among others": (lambda: Transformed(Composed(abs, jitter)), "randn_like may draw"),
    "a lambda": (lambda: Transformed(lambda row: row + torch.rand(3)), "rand may draw"),
    "dropout": (lambda: Transformed(nn.Sequential(nn.Dropout())), "Dropout in training mode"),
    "a subset of random data": (lambda: Subset(Augmented(), range(9)), "rand may draw"),
    "words": (Objects, "item 0 holds a str"),
    "objects": (OtherObjects, "no item of it can be read: TypeError: default_collate"),
    "ragged rows": (Ragged, "item 400 has another shape"),
    "a stream": (Stream, "a stream without indices"),
    "no length": (Unlimited, "has no length"),
    "many at a time": (Many, "__getitems__"),
    "a name in words": (NamedInWords, "rand may draw random numbers"),
    "code made as it runs": (Evaluated, "uses eval"),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_may_not_be_kept_is_refused_and_left_as_it_was(
    make: Callable[[], Any], reason: str
) -> None:
    dataset = make()
    held = {key: str(value) for key, value in vars(dataset).items()}
    before = random_settings()
    with pytest.raises(CannotFreeze) as refusal:
        freeze(DataLoader(dataset, batch_size=4), most_bytes=MiB)
    assert reason in refusal.value.reason
    assert {key: str(value) for key, value in vars(dataset).items()} == held
    assert random_settings() == before


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(CannotFreeze) as refusal:
        freeze(DataLoader(Augmented()), most_bytes=MiB)
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "torch.rand(3)" in text
    )
    assert refusal.value.reason.startswith(f"test_trap_datasets.py:{line}: ")


def test_a_dataset_larger_than_the_allowance_is_refused_by_its_first_item() -> None:
    read: list[int] = []
    with pytest.raises(CannotFreeze, match=r"500 items come to 0\.0 MiB, more than the 0\.0 MiB"):
        freeze(DataLoader(Transformed(abs)), most_bytes=5000, tell=lambda *_: read.append(1))
    assert not read


def test_a_process_that_is_killed_while_it_reads_is_a_refusal() -> None:
    killer = threading.Thread(target=kill_a_child, args=[psutil.Process().children()])
    killer.start()
    with pytest.raises(CannotFreeze, match="ended by signal 9"):
        freeze(DataLoader(Slow()), most_bytes=MiB)
    killer.join()


def kill_a_child(before: list[psutil.Process]) -> None:
    """Not one that was there before, such as multiprocessing's own."""
    while not (children := set(psutil.Process().children()) - set(before)):
        time.sleep(0.01)
    children.pop().kill()


def test_items_that_never_come_are_a_refusal_after_the_time_that_was_given() -> None:
    with pytest.raises(CannotFreeze, match=r"not done after 0\.5 s"):
        freeze(DataLoader(Slow()), most_bytes=MiB, limit_s=0.5)


class Hdf5(Dataset[Tensor]):
    def __init__(self, path: Path, *, late: bool) -> None:
        self.path = str(path)
        self.file = None if late else h5py.File(self.path)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = h5py.File(self.path)
        return self.file["rows"][index], index


@pytest.fixture
def hdf5(tmp_path: Path) -> Path:
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["rows"] = np.arange(80.0, dtype=np.float32).reshape(40, 2)
    return path


def test_an_open_hdf5_file_is_not_shared_with_another_process(hdf5: Path) -> None:
    dataset = Hdf5(hdf5, late=False)
    with pytest.raises(CannotFreeze, match="open HDF5 file"):
        freeze(DataLoader(dataset), most_bytes=MiB)
    assert torch.equal(torch.as_tensor(dataset[7][0]), torch.tensor([14.0, 15.0]))


def test_an_hdf5_file_that_is_opened_late_is_read_right(hdf5: Path) -> None:
    dataset = Hdf5(hdf5, late=True)
    loader = DataLoader(dataset, batch_size=7, shuffle=True)
    frozen = freeze(loader, most_bytes=MiB)
    assert dataset.file is None  # it was opened elsewhere
    assert torch.equal(frozen.columns[0], torch.arange(80.0).reshape(40, 2))
    torch.manual_seed(1)
    rows = [row for batch in BatchedLoader(loader, frozen) for row in batch[1].tolist()]
    assert sorted(rows) == list(range(40))
    list(loader)
    with pytest.raises(CannotFreeze, match="open HDF5 file"):
        freeze(loader, most_bytes=MiB)
    dataset.file.close()  # type: ignore[attr-defined]
