"""Worker processes against the DataLoader that they load for: batches, order, random numbers."""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
    get_worker_info,
)

from hasten.data.ahead.manner import Manner
from hasten.data.ahead.workers import WorkersLoader, cannot_work
from hasten.errors import HastenError
from hasten.records.loading import WorkerSettings
from torch_state import bits, random_settings

ROWS = 22
TWO = WorkerSettings(workers=2)
LIVING = WorkerSettings(workers=2, persistent=True)
Options = dict[str, Any]


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3,), float(index)), index


class DrawsAsItGoes(Sampler[int]):
    """From the generators that the training draws from too."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(ROWS):
            yield (int(torch.randint(ROWS, ())) + random.randrange(ROWS)) % ROWS

    def __len__(self) -> int:
        return ROWS


class Remembers(Sampler[list[int]]):
    """A batch sampler that counts its epochs, and draws when it is asked for an iterator."""

    def __init__(self) -> None:
        self.epochs = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.epochs += 1
        order = torch.randperm(ROWS).tolist()
        return iter([order[: self.epochs], order[3:10], [0, 1]])

    def __len__(self) -> int:
        return 3


def own_generator() -> torch.Generator:
    return torch.Generator().manual_seed(8)


# Made anew for each loader: a sampler or a generator may have a state of its own.
ORDERS: dict[str, Callable[[], Options]] = {
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "shuffled, last dropped": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "weighted": lambda: {"batch_size": 4, "sampler": WeightedRandomSampler([1.0] * ROWS, ROWS)},
    "a generator of its own": lambda: {
        "batch_size": 4,
        "shuffle": True,
        "generator": own_generator(),
    },
    "a sampler's own generator": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(ROWS), generator=own_generator()),
    },
    "its own batches": lambda: {"batch_sampler": Remembers()},
}


def watch(loader: Any, *, epochs: int = 3, stop_after: int | None = None) -> list[Any]:
    """Batches, and where the generators stand, of epochs between whose batches others draw."""
    torch.manual_seed(5)
    random.seed(5)
    seen: list[Any] = []
    for _ in range(epochs):
        for batch in islice(loader, stop_after):
            seen.append([bits(each) for each in batch])
            torch.rand(2)
        own = getattr(loader, "loader", loader).generator
        seen.append((random_settings(), own and bits(own.get_state())))
    return seen


@pytest.mark.parametrize(
    ("order", "settings", "own"),
    [
        *((order, TWO, 0) for order in ORDERS),
        *((order, LIVING, 1) for order in ORDERS if "last" not in order),
        ("shuffled", LIVING, 0),
        ("its own batches", TWO, 1),
    ],
)
def test_the_batches_and_the_random_numbers_are_those_of_the_loader(
    order: str, settings: WorkerSettings, own: int
) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Items(), num_workers=own, **ORDERS[order]())

    loader = WorkersLoader(make(), settings, manner=Manner())
    assert watch(loader) == watch(make())
    assert loader.notes == []
    loader.close()


@pytest.mark.parametrize("settings", [TWO, LIVING], ids=["anew", "living on"])
def test_an_epoch_that_is_left_early_leaves_the_same_random_numbers(
    settings: WorkerSettings,
) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Items(), **ORDERS["a sampler's own generator"]())

    loader = WorkersLoader(make(), settings, manner=Manner())
    assert watch(loader, stop_after=2) == watch(make(), stop_after=2)
    loader.close()


def test_persistent_workers_of_the_users_own_keep_their_order() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(
            Items(), batch_size=4, shuffle=True, num_workers=1, persistent_workers=True
        )

    theirs = make()
    expected = watch(theirs)
    theirs._iterator = None  # ends their workers
    assert watch(WorkersLoader(make(), TWO, manner=Manner())) == expected


def test_no_workers_are_as_good_as_any() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Items(), batch_size=4, shuffle=True, num_workers=1)

    loader = WorkersLoader(make(), WorkerSettings(workers=0), manner=Manner())
    assert watch(loader) == watch(make())


def test_a_sampler_that_draws_between_the_draws_of_the_training_is_still_followed() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Items(), batch_size=4, sampler=DrawsAsItGoes())

    loader = WorkersLoader(make(), TWO, manner=Manner())
    assert watch(loader) == watch(make())
    (note,) = loader.notes
    assert note.startswith("its sampler said something else than was foreseen; from there on")


class RandomInOne(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(3) if index == 17 else torch.full((3,), float(index)), index


def test_an_item_that_turns_out_random_is_drawn_as_the_loader_would() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(RandomInOne(), batch_size=4, shuffle=True)

    loader = WorkersLoader(make(), TWO, manner=Manner())
    assert watch(loader) == watch(make())
    assert loader.notes == [
        "its items draw random numbers, which must not be those of workers; from there on batches "
        "are made one by one in this process"
    ]


def test_random_items_stay_as_they_are_unless_asked_and_then_it_is_said() -> None:
    loader = DataLoader(RandomInOne(), batch_size=4, sampler=range(ROWS))
    reason = cannot_work(loader, TWO)
    assert reason is not None
    assert reason.startswith("its items may draw random numbers (")
    assert reason.endswith("which would be others in workers (same distribution, other stream)")
    asked = WorkersLoader(loader, TWO, random=True)
    rows = [row for batch in asked for row in batch[0].tolist()]
    assert [row for at, row in enumerate(rows) if at != 17] == [
        [float(at)] * 3 for at in range(ROWS) if at != 17
    ]
    assert asked.notes == []


def test_items_that_draw_in_workers_as_they_did_before_are_said_to_draw_others() -> None:
    own = DataLoader(RandomInOne(), batch_size=4, num_workers=1)
    loader = WorkersLoader(own, TWO, manner=Manner())
    assert len(list(loader)) == len(own)
    assert loader.notes == [
        "its items draw random numbers in workers: same distribution, other stream"
    ]


class Counter(Items):
    def __init__(self) -> None:
        self.count = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.count += 1
        return torch.full((3,), float(index)), self.count


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(ROWS))


class OtherLoader(DataLoader[Any]):
    pass


class Uncopied(Sampler[int]):
    def __init__(self) -> None:
        self.lines = (number for number in range(ROWS))

    def __iter__(self) -> Iterator[int]:
        return self.lines

    def __len__(self) -> int:
        return ROWS


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (list, "it is a list, not a plain DataLoader"),
    "a class of its own": (
        lambda: OtherLoader(Items()),
        "it is a OtherLoader, not a plain DataLoader",
    ),
    "a stream": (
        lambda: DataLoader(Stream()),
        "its dataset is iterable, and each worker would go through all of it",
    ),
    "single rows": (lambda: DataLoader(Items(), batch_size=None), "it makes no batches"),
    "a counter": (
        lambda: DataLoader(Counter()),
        "its items are not the same when they are read again",
    ),
    "a sampler that cannot be copied": (
        lambda: DataLoader(Items(), sampler=Uncopied()),
        "its sampler, a BatchSampler, cannot be copied to look ahead: "
        "cannot pickle 'generator' object",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_given_workers_is_refused_with_the_reason(case: str) -> None:
    make, reason = REFUSED[case]
    loader = make()
    assert cannot_work(loader, TWO) == reason
    with pytest.raises(HastenError, match="cannot be given workers"):
        WorkersLoader(loader, TWO)


def test_looking_at_a_dataset_leaves_it_as_it_was() -> None:
    loader = DataLoader(Counter(), shuffle=True)
    before = random_settings()
    cannot_work(loader, TWO)
    assert loader.dataset.count == 0  # type: ignore[attr-defined]
    assert random_settings() == before


class Hdf5(Items):
    """Opens its file at once, as people do."""

    def __init__(self, path: Path) -> None:
        self.file = h5py.File(path)
        self.rows = self.file["rows"]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor(self.rows[index]), index


class ReopenedHdf5(Hdf5):
    """Goes to other processes by the name of its file."""

    def __reduce__(self) -> Any:
        return ReopenedHdf5, (Path(self.file.filename),)


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["rows"] = torch.arange(ROWS * 3.0).reshape(ROWS, 3).numpy()
    return path


def test_an_open_hdf5_file_is_not_shared_with_forked_workers(rows_file: Path) -> None:
    dataset = Hdf5(rows_file)
    loader = DataLoader(dataset, batch_size=4)
    shared = (
        "its dataset holds open files (h5py.Dataset, h5py.File), which forked processes would "
        "share and read wrongly"
    )
    assert cannot_work(loader, TWO) == shared
    spawned = WorkerSettings(workers=1, start="spawn")
    reason = cannot_work(loader, spawned)
    assert reason == f"{shared}; nor can it be sent to spawned ones: h5py objects cannot be pickled"
    dataset.file.close()
    assert cannot_work(loader, TWO) != shared


def test_a_dataset_that_opens_its_file_anew_may_have_spawned_workers(rows_file: Path) -> None:
    loader = DataLoader(ReopenedHdf5(rows_file), batch_size=8, shuffle=True)
    spawned = WorkersLoader(loader, WorkerSettings(workers=1, start="spawn"))
    assert watch(spawned, epochs=1) == watch(loader, epochs=1)


class Changing(Items):
    def __init__(self) -> None:
        self.epoch = 0

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        return 100 * self.epoch + index


def test_workers_that_live_on_see_a_dataset_that_was_changed_between_epochs() -> None:
    dataset = Changing()
    loader = WorkersLoader(DataLoader(dataset, batch_size=ROWS), LIVING, manner=Manner())
    for epoch in range(3):
        dataset.epoch = epoch // 2 * 7
        (batch,) = loader
        assert batch.tolist() == [100 * dataset.epoch + row for row in range(ROWS)]
    loader.close()


def test_two_epochs_at_once_do_not_disturb_each_other() -> None:
    loader = WorkersLoader(DataLoader(Items(), batch_size=8), LIVING, manner=Manner())
    first, second = iter(loader), iter(loader)
    found = [next(each)[1].tolist()[0] for each in (first, second, second, first, first)]
    assert found == [0, 0, 8, 8, 16]
    del first, second
    loader.close()


@pytest.mark.parametrize("own", [0, 1], ids=["none before", "one before"])
def test_an_epoch_goes_on_in_another_loader_where_it_was_left(own: int) -> None:
    def make() -> WorkersLoader:
        loader = DataLoader(Items(), batch_size=4, shuffle=True, num_workers=own)
        return WorkersLoader(loader, TWO, manner=Manner())

    torch.manual_seed(3)
    whole = make()
    list(whole)
    batches = iter(whole)
    next(batches), next(batches)
    state = whole.state_dict()
    expected = [[each[1].tolist() for each in batches], random_settings()]
    torch.manual_seed(99)
    resumed = make()
    resumed.load_state_dict(state)
    assert [[each[1].tolist() for each in resumed], random_settings()] == expected


def test_what_the_loader_was_told_workers_are_told() -> None:
    def note(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        assert isinstance(info.dataset, Items)
        info.dataset.number = worker

    class Numbered(Items):
        number = -1

        def __getitem__(self, index: int) -> int:  # type: ignore[override]
            return self.number

    own = DataLoader(
        Numbered(), batch_sampler=BatchSampler(range(8), 4, False), worker_init_fn=note
    )
    loader = WorkersLoader(own, TWO, manner=Manner())
    assert [batch.tolist() for batch in loader] == [[0] * 4, [1] * 4]
    assert loader.num_workers == 2
    assert (len(loader), loader.dataset) == (2, own.dataset)
