"""What may be kept as columns is kept to the bit, and watched as long as it is used."""

import functools
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from hasten.data.freezing import frozen as watching
from hasten.data.freezing.freeze import CannotFreeze, freeze
from hasten.data.freezing.reading import read_code
from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.prefetched import PrefetchedLoader
from hasten.data.loaders.resident import cannot_reside
from hasten.errors import HastenError
from torch_state import bits

ROWS, MiB = 30, 2**20
SCALE = 2.0


def scaled(row: Tensor, by: float) -> Tensor:
    return row * by


class Shift:
    def __init__(self, by: float) -> None:
        self.noise = torch.rand(3)  # when it is made, not when an item is
        self.by = by

    def __call__(self, row: Tensor) -> Tensor:
        return self._shift(row) + self.noise

    def _shift(self, row: Tensor) -> Tensor:
        shifted = row.clone()
        shifted[0] += self.by
        return shifted


class Rows(Dataset[Any]):
    def __init__(self, transform: Any = None) -> None:
        self.table = torch.arange(ROWS * 3.0).reshape(ROWS, 3)
        self.transform = transform

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        row = self.table[index]
        found = [math.sqrt(float(value)) for value in row]
        found.append(SCALE)
        changed = row if self.transform is None else self.transform(row)
        return changed, torch.tensor(found), index


class Files(Dataset[Any]):
    """Decodes a file for each item, through a function with a cache that it declares."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"{index}.npy" for index in range(8)]
        for index, path in enumerate(self.paths):
            np.save(path, np.full((2, 2), index, dtype=np.int16))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return {"image": np.load(self.paths[index]), "name": self._label(index)}

    @functools.lru_cache  # noqa: B019
    def _label(self, index: int) -> int:
        name = os.path.basename(self.paths[index])  # noqa: PTH119
        return int(name.split(".")[0])


def loader_of(dataset: Any, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, **options)


KEPT: dict[str, Callable[[], Any]] = {
    "plain rows": Rows,
    "an object with a call": lambda: Rows(Shift(1.0)),
    "a function": lambda: Rows(torch.sin),
    "a partial function": lambda: Rows(functools.partial(scaled, by=3.0)),
    "a lambda": lambda: Rows(lambda row: scaled(row, by=0.5)),
    "a layer that is not trained": lambda: Rows(nn.Sequential(nn.Dropout(), nn.ReLU()).eval()),
    "a subset": lambda: Subset(Rows(), [3, 3, 1, 29]),
    "several": lambda: ConcatDataset([Rows(), Subset(Rows(), [2])]),
    "a list": lambda: [(index, 2.5 * index) for index in range(9)],
    "tensors": lambda: TensorDataset(torch.randn(7, 2), torch.arange(7)),
}


@pytest.mark.parametrize("make", KEPT.values(), ids=list(KEPT))
def test_what_gives_the_same_each_time_is_kept_to_the_bit(make: Callable[[], Any]) -> None:
    loader = loader_of(make())
    kept = BatchedLoader(loader, freeze(loader, most_bytes=MiB))
    with torch.no_grad():
        for batch, expected in zip(kept, loader, strict=True):
            assert type(batch) is type(expected) is list
            assert [bits(each) for each in batch] == [bits(each) for each in expected]


def test_files_are_read_once_and_by_another_process(tmp_path: Path) -> None:
    loader = loader_of(Files(tmp_path))
    frozen = freeze(loader, most_bytes=MiB)
    for path in loader.dataset.paths:  # type: ignore[attr-defined]
        path.rename(path.with_suffix(".away"))
    first = next(iter(PrefetchedLoader(BatchedLoader(loader, frozen), torch.device("cpu"))))
    assert list(first) == ["image", "name"]
    assert first["image"].dtype == torch.int16
    assert first["image"][3].tolist() == [[3, 3], [3, 3]]
    assert first["name"].tolist() == [0, 1, 2, 3]


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from hasten.data.freezing import passes

    monkeypatch.setattr(passes, "TELL_EVERY_S", 0.0)
    told: list[tuple[int, int]] = []
    freeze(loader_of(Rows()), most_bytes=MiB, tell=lambda *each: told.append(each))
    assert told == [(done, 2 * ROWS) for done in range(1, 2 * ROWS + 1)]


class UnreadableError(ValueError):
    def __init__(self, index: int) -> None:
        super().__init__(f"row {index} cannot be read")
        self.index = index


class Checked(Rows):
    def __getitem__(self, index: int) -> Any:
        if index >= ROWS:
            raise UnreadableError(index)
        return self.table[index]


def test_what_an_item_makes_anew_is_no_memory() -> None:
    frozen = freeze(loader_of(Checked()), most_bytes=MiB)
    assert frozen.columns[0].tolist() == Checked().table.tolist()


class Damaged(Rows):
    def __getitem__(self, index: int) -> Any:
        if index in (5, 6):
            raise OSError(f"row {index} is damaged")
        return self.table[index]


def test_a_damaged_item_matters_only_to_whoever_asks_for_it() -> None:
    dataset = Damaged()
    loader = loader_of(dataset)
    frozen = freeze(loader, most_bytes=MiB)
    assert frozen.absent is not None
    assert frozen.absent.nonzero().flatten().tolist() == [5, 6]
    source = iter(BatchedLoader(loader, frozen))
    assert torch.equal(next(source), dataset.table[:4])
    with pytest.raises(OSError, match="row 5 is damaged"):
        next(source)
    assert torch.equal(torch.cat(list(source)), dataset.table[8:])  # the epoch goes on behind it
    whole = [index for index in range(ROWS) if index not in (5, 6)]
    others = loader_of(dataset, sampler=whole)
    rows = torch.cat(list(BatchedLoader(others, frozen)))
    assert torch.equal(rows, dataset.table[whole])
    assert cannot_reside(loader, frozen) == "some of its items could not be read"


class Sequential(Dataset[Any]):
    """Reads on from where its file stands."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(range(100)))
        self.file = path.open("rb", buffering=0)

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return int(self.file.read(1)[0])


def test_the_place_in_a_file_that_is_open_stays_where_it_was(tmp_path: Path) -> None:
    dataset = Sequential(tmp_path / "bytes")
    assert dataset[0] == 0
    with pytest.raises(CannotFreeze, match="is another one when it is read again"):
        freeze(loader_of(dataset), most_bytes=MiB)
    assert dataset[0] == 1
    dataset.file.close()


class Curriculum(Rows):
    """Its items depend on what the training tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def __getitem__(self, index: int) -> Tensor:
        return self.table[index] * (self.epoch + 1)


def test_a_dataset_that_is_changed_later_is_read_as_it_is_from_then_on() -> None:
    def epochs(loader: Any, dataset: Curriculum) -> list[Any]:
        torch.manual_seed(3)
        found = []
        for epoch in range(3):
            dataset.epoch = epoch // 2
            found.append([bits(batch) for batch in loader])
        return found

    dataset, other = Curriculum(), Curriculum()
    loader = loader_of(dataset, shuffle=True)
    kept = BatchedLoader(loader, freeze(loader, most_bytes=MiB))
    with pytest.warns(UserWarning, match="Curriculum, has changed since its items were kept"):
        found = epochs(kept, dataset)
    assert found == epochs(loader_of(other, shuffle=True), other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(kept)  # said once


def test_a_variable_outside_that_is_changed_later_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = loader_of(Rows())
    kept = BatchedLoader(loader, freeze(loader, most_bytes=MiB))
    monkeypatch.setattr(f"{__name__}.SCALE", 5.0)
    with pytest.warns(UserWarning, match="has changed"):
        assert next(iter(kept))[1][0, 3] == 5.0


def test_a_file_that_is_changed_later_is_found_at_the_end_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CHECKED", 8)
    loader = loader_of(Files(tmp_path))
    frozen = freeze(loader, most_bytes=MiB)
    kept = BatchedLoader(loader, frozen)
    frozen.every_s = 0.0
    assert len(list(kept)) == 2
    np.save(tmp_path / "6.npy", np.full((2, 2), 60, dtype=np.int16))
    source = iter(kept)
    assert len([next(source), next(source)]) == 2
    with pytest.raises(HastenError, match="Item 6 of the dataset, a Files, is another one"):
        next(source)


def test_items_that_cannot_be_compared_any_more_are_read_as_they_are(tmp_path: Path) -> None:
    loader = loader_of(Files(tmp_path))
    kept = BatchedLoader(loader, freeze(loader, most_bytes=MiB))
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.warns(UserWarning, match="could not be compared with those of the Files"):
        assert len(list(kept)) == 2
    with pytest.raises(FileNotFoundError):
        next(iter(kept))


def test_checks_draw_from_no_generator_that_others_use() -> None:
    loader = loader_of(Rows())
    frozen = freeze(loader, most_bytes=MiB)
    frozen.every_s = 0.0
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.empty((), dtype=torch.int64).random_()
    state = torch.get_rng_state()
    torch.manual_seed(1)
    list(BatchedLoader(loader, frozen))
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(torch.rand(3), expected)


def test_columns_of_another_dataset_are_refused() -> None:
    frozen = freeze(loader_of(Rows()), most_bytes=MiB)
    with pytest.raises(HastenError, match="frozen from another dataset"):
        BatchedLoader(loader_of(Rows()), frozen)


def test_the_code_of_a_dataset_is_read_without_running_it() -> None:
    class Trap(Rows):
        @property
        def secret(self) -> int:
            raise AssertionError("this was run")

        def __getitem__(self, index: int) -> int:
            return self.secret

    assert [each.name for each in read_code(Trap())] == ["SCALE"]  # of the class below it
