"""Every loader of in-memory data against the DataLoader that it stands for: three epochs, bit for
bit, with all random generators after each, and from any place within an epoch."""

import random
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from hasten.data.freezing.freeze import freeze
from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.epochs import own_generators
from hasten.data.loaders.order import cannot_take_whole
from hasten.data.loaders.prefetched import PrefetchedLoader
from hasten.data.loaders.resident import ResidentLoader
from hasten.errors import HastenError
from hasten.task.seed import seed_everything
from torch_state import bits, random_settings

ROWS = 45
CPU = torch.device("cpu")
Options = dict[str, Any]
Point = namedtuple("Point", ["x", "y"])


class Items(Dataset[Any]):
    """All that ``default_collate`` makes tensors of, in containers of all kinds."""

    def __init__(self) -> None:
        self.rows = np.random.default_rng(3).normal(size=(ROWS, 3)).astype(np.float32)
        self.rows[7, 1] = np.nan

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        return {
            "array": row,
            "tensor": torch.from_numpy(row).to(torch.bfloat16),
            "numbers": (index, float(row[0]), index % 2 == 0, [np.int32(index), row[2]]),
            "point": Point(torch.tensor(index), OrderedDict(image=torch.full((2, 1, 3), index))),
        }


class Tensors(TensorDataset):
    """Read as any other dataset is: it is not plain."""


def tensors(kind: type[TensorDataset] = TensorDataset) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(ROWS, 2, 3, generator=generator)
    images[3, 1, 1] = float("nan")
    return kind(images, torch.arange(ROWS), torch.arange(ROWS) % 3 == 0)


class Drawing(Sampler[list[int]]):
    """A batch sampler of one's own, which draws as it goes."""

    def __iter__(self) -> Iterator[list[int]]:
        for size in (3, 1, 6, 2):
            yield torch.randint(-ROWS, ROWS, (size,)).tolist()


class Blocks(Sampler[list[int]]):
    """A batch sampler of one's own, which draws when it begins."""

    def __iter__(self) -> Iterator[list[int]]:
        for start in torch.randperm(ROWS // 5).tolist():
            yield list(range(5 * start, 5 * start + 5))

    def __len__(self) -> int:
        return ROWS // 5


def own() -> torch.Generator:
    return torch.Generator().manual_seed(8)


# Made anew for each loader: a sampler or a generator may have a state of its own.
CASES: dict[str, Callable[[], Options]] = {
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "shuffled, last dropped": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "its own generator": lambda: {"batch_size": 5, "shuffle": True, "generator": own()},
    "weighted": lambda: {
        "batch_size": 4,
        "sampler": WeightedRandomSampler(torch.arange(1.0, ROWS + 1), 34),
    },
    "weighted without replacement": lambda: {
        "batch_size": 4,
        "sampler": WeightedRandomSampler([1.0] * ROWS, 17, replacement=False, generator=own()),
    },
    "with replacement": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(ROWS), replacement=True, generator=own()),
    },
    "a subset counted from the end": lambda: {
        "batch_size": 3,
        "sampler": SubsetRandomSampler(range(-10, 0)),
    },
    "batches of one's own": lambda: {
        "batch_sampler": BatchSampler(RandomSampler(range(17)), 4, drop_last=True)
    },
    "blocks": lambda: {"batch_sampler": Blocks()},
    "drawn as it goes": lambda: {"batch_sampler": Drawing()},
}
WORKERS: dict[str, Options] = {
    "": {},
    " by workers": {"num_workers": 2},
    " by workers that live on": {"num_workers": 1, "persistent_workers": True},
}
DATA: dict[str, Callable[[], Any]] = {"tensors": tensors, "items": Items}


def stand_in(kind: str, loader: DataLoader[Any]) -> Any:
    plain = type(loader.dataset) is TensorDataset
    frozen = None if plain else freeze(loader, most_bytes=2**20)
    if kind == "resident":
        return ResidentLoader(loader, CPU, frozen)
    batched = BatchedLoader(loader, frozen)
    return batched if kind == "batched" else PrefetchedLoader(batched, CPU)


def as_bits(batch: Any) -> Any:
    """Containers of the same kind, strides and bits included."""
    leaves, form = pytree.tree_flatten(batch)
    return str(form), [(bits(leaf), leaf.stride()) for leaf in leaves]


def train(source: Iterator[Any], seen: list[Any]) -> None:
    for batch in source:
        batch = list(batch) if not isinstance(batch, dict) else batch
        seen.append((as_bits(batch), float(torch.rand(())), random.random()))  # as dropout draws


def generators(loader: Any) -> Any:
    return random_settings(), [bits(each.get_state()) for each in own_generators(loader)]


def watch(loader: Any, epochs: int = 3) -> list[Any]:
    seed_everything(11)
    seen: list[Any] = []
    for _ in range(epochs):
        train(iter(loader), seen)
        seen.append(generators(loader))
    original = getattr(loader, "loader", loader)
    if original._iterator is not None:
        original._iterator._shutdown_workers()
    return seen


LIVE_ON = " by workers that live on"
COMBINED = [(data, "", case) for data in DATA for case in CASES]
COMBINED += [("tensors", LIVE_ON, case) for case in CASES]
COMBINED += [("items", LIVE_ON, case) for case in ("shuffled, last dropped", "blocks")]


@pytest.mark.parametrize("kind", ["batched", "prefetched", "resident"])
@pytest.mark.parametrize(("data", "workers", "case"), COMBINED)
def test_three_epochs_are_those_of_the_data_loader(
    kind: str, data: str, workers: str, case: str
) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(DATA[data](), **CASES[case](), **WORKERS[workers])

    loader = make()
    reason = cannot_take_whole(loader)
    if kind == "resident" and reason:
        with pytest.raises(HastenError, match=reason):
            stand_in(kind, loader)
        return
    assert watch(stand_in(kind, loader)) == watch(make())


RESUMED = [case for case in CASES if case != "drawn as it goes"]


@pytest.mark.parametrize("kind", ["batched", "prefetched", "resident"])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("case", RESUMED)
def test_a_state_goes_on_where_it_was_kept(kind: str, workers: str, case: str) -> None:
    def make() -> Any:
        return stand_in(kind, DataLoader(tensors(), **CASES[case](), **WORKERS[workers]))

    if kind == "resident" and cannot_take_whole(DataLoader(tensors(), **CASES[case]())):
        pytest.skip("such a sampler cannot be drawn from at once")
    for epoch, given in ((0, 0), (0, 1), (1, 2), (1, 3)):
        seed_everything(5)
        loader = make()
        for _ in range(epoch):
            train(iter(loader), [])
        seen: list[Any] = []
        source = iter(loader)
        train(islice(source, given), seen)
        state = loader.state_dict()
        rest: list[Any] = []
        train(source, rest)
        train(iter(loader), rest)
        end = generators(loader)

        seed_everything(99)  # another process
        again = make()
        again.load_state_dict(state)
        found: list[Any] = []
        train(iter(again), found)
        train(iter(again), found)
        assert (found, generators(again)) == (rest, end)


def test_a_state_between_two_epochs_begins_the_next_one() -> None:
    seed_everything(5)
    loader = stand_in("batched", DataLoader(tensors(), batch_size=4, shuffle=True))
    train(iter(loader), [])
    state, seen, found = loader.state_dict(), list[Any](), list[Any]()
    train(iter(loader), seen)
    again = stand_in("prefetched", DataLoader(tensors(), batch_size=4, shuffle=True))
    again.load_state_dict(state)
    assert again.state_dict() is state
    train(iter(again), found)
    assert found == seen


def test_a_frozen_dataset_goes_on_too() -> None:
    def make() -> Any:
        return stand_in("batched", DataLoader(Items(), batch_size=4, shuffle=True))

    seed_everything(5)
    loader = make()
    source = iter(loader)
    next(source)
    state, rest, found = loader.state_dict(), list[Any](), list[Any]()
    train(source, rest)
    again = make()
    again.load_state_dict(state)
    train(iter(again), found)
    assert found == rest


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch_size": 5}, "its batch size is 4, and here it is 5"),
        ({"batch_size": 4, "drop_last": True}, "its drop_last is False, and here it is True"),
        ({"batch_size": 4, "generator": own()}, "its number of generators is 0, and here it is 1"),
    ],
)
def test_the_state_of_another_loader_is_refused(options: Options, why: str) -> None:
    state = BatchedLoader(DataLoader(tensors(), batch_size=4)).state_dict()
    with pytest.raises(HastenError, match=why):
        BatchedLoader(DataLoader(tensors(), **options)).load_state_dict(state)
    shorter = TensorDataset(torch.ones(9))
    with pytest.raises(HastenError, match="its number of rows is 45, and here it is 9"):
        BatchedLoader(DataLoader(shorter, batch_size=4)).load_state_dict(state)
    with pytest.raises(HastenError, match="its version is None"):
        BatchedLoader(DataLoader(tensors(), batch_size=4)).load_state_dict({})


def test_an_epoch_that_cannot_be_begun_again_is_refused() -> None:
    loader = BatchedLoader(DataLoader(tensors(), batch_sampler=Drawing()))
    next(iter(loader))
    with pytest.raises(HastenError, match="draws random numbers between those of the training"):
        loader.load_state_dict(loader.state_dict())
