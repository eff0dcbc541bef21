"""The resident loader against the DataLoader that it stands for: batches, order, random numbers.

On a CPU as the device: where the tensors lie makes no difference to any of this.
"""

import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from hasten.data.loaders.resident import ResidentLoader, cannot_reside, resident_bytes
from hasten.task.batch import RowsOf
from torch_state import bits, random_settings

ROWS = 22
CPU = torch.device("cpu")
Options = dict[str, Any]


def make_dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(ROWS, 2, 3, generator=generator)
    images[3, 1, 1] = float("nan")
    return TensorDataset(images, torch.arange(ROWS), torch.arange(ROWS) % 3 == 0)


def own_generator() -> torch.Generator:
    return torch.Generator().manual_seed(8)


def sampled(sampler: Callable[[], Sampler[int]], **more: Any) -> Callable[[], Options]:
    return lambda: {"batch_size": 4, "sampler": sampler(), **more}


# Made anew for each loader: a sampler or a generator may have a state of its own.
CASES: dict[str, Callable[[], Options]] = {
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "shuffled, last dropped": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "in order": lambda: {"batch_size": 4},
    "in order, last dropped": lambda: {"batch_size": 4, "drop_last": True},
    "in whole batches": lambda: {"batch_size": 11, "shuffle": True, "generator": own_generator()},
    "one row": lambda: {"shuffle": True},
    "its own generator": lambda: {"batch_size": 4, "shuffle": True, "generator": own_generator()},
    "its own generator, last dropped": lambda: {
        "batch_size": 4,
        "shuffle": True,
        "drop_last": True,
        "generator": own_generator(),
    },
    "a sampler with its own generator": sampled(
        lambda: RandomSampler(range(ROWS), generator=own_generator())
    ),
    "fewer than all": sampled(
        lambda: RandomSampler(range(ROWS), num_samples=9, generator=own_generator())
    ),
    "more than all": sampled(lambda: RandomSampler(range(ROWS), num_samples=50)),
    "twice all": sampled(lambda: RandomSampler(range(ROWS), num_samples=44)),
    "with replacement": sampled(lambda: RandomSampler(range(ROWS), True, 70)),
    "a subset": sampled(lambda: SubsetRandomSampler(range(0, ROWS, 2))),
    "a subset with its own generator": sampled(
        lambda: SubsetRandomSampler(range(0, ROWS, 2), generator=own_generator())
    ),
    "weighted": sampled(lambda: WeightedRandomSampler(list(range(1, ROWS + 1)), 17)),
    "weighted without replacement": sampled(
        lambda: WeightedRandomSampler(
            list(range(1, ROWS + 1)), 17, replacement=False, generator=own_generator()
        )
    ),
}


def batched(sampler: Callable[[], Sampler[int]], size: int, drop_last: bool) -> Any:
    return lambda: {"batch_sampler": BatchSampler(sampler(), size, drop_last)}


CASES |= {
    "batches of one's own": batched(lambda: RandomSampler(range(ROWS)), 4, False),
    "batches of one's own, last dropped": batched(
        lambda: RandomSampler(range(ROWS), generator=own_generator()), 4, True
    ),
    "whole batches of one's own": batched(
        lambda: RandomSampler(range(ROWS), generator=own_generator()), 11, False
    ),
    "batches of one's own in order": batched(lambda: SequentialSampler(range(ROWS)), 5, False),
}


def make_loader(options: Options) -> DataLoader[Any]:
    return DataLoader(make_dataset(), **options)


def watch(loader: Any, *, epochs: int = 3, stop_after: int | None = None) -> list[Any]:
    """For each epoch: its batches, bit for bit, and all random generators after it."""
    torch.manual_seed(11)
    random.seed(12)
    seen = []
    original = getattr(loader, "loader", loader)
    for _ in range(epochs):
        batches = []
        for batch in islice(loader, stop_after):
            batches.append([(bits(tensor), tensor.stride()) for tensor in batch])
            torch.rand(1), random.random()  # as a training draws, between the batches
        sampler = getattr(original.batch_sampler.sampler, "generator", None)
        own = [bits(each.get_state()) for each in (original.generator, sampler) if each]
        seen.append((batches, random_settings(), own))
    if original._iterator is not None:
        original._iterator._shutdown_workers()
    return seen


@pytest.mark.parametrize("stop_after", [None, 0, 1, 2, 6])
@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_batches_and_random_numbers_are_those_of_the_data_loader(
    options: Callable[[], Options], stop_after: int | None
) -> None:
    found = watch(ResidentLoader(make_loader(options()), CPU), stop_after=stop_after)
    assert found == watch(make_loader(options()), stop_after=stop_after)


@pytest.mark.parametrize("stop_after", [None, 1, 2])
@pytest.mark.parametrize("persistent", [False, True], ids=["new workers", "persistent workers"])
@pytest.mark.parametrize(
    "case",
    [
        "shuffled",
        "in whole batches",
        "its own generator",
        "its own generator, last dropped",
        "with replacement",
        "in order, last dropped",
        "batches of one's own, last dropped",
    ],
)
def test_a_loader_with_workers_is_matched_without_any(
    case: str, persistent: bool, stop_after: int | None
) -> None:
    workers = {"num_workers": 2, "persistent_workers": persistent}
    expected = watch(make_loader({**CASES[case](), **workers}), stop_after=stop_after)
    resident = ResidentLoader(make_loader({**CASES[case](), **workers}), CPU)
    assert watch(resident, stop_after=stop_after) == expected
    assert resident.loader._iterator is None


def test_persistent_workers_that_have_begun_are_not_seeded_again() -> None:
    options = {"batch_size": 8, "shuffle": True, "num_workers": 2, "persistent_workers": True}
    expected, begun = make_loader(options), make_loader(options)
    list(expected), list(begun)
    assert watch(ResidentLoader(begun, CPU), epochs=2) == watch(expected, epochs=2)


def test_a_batch_is_rows_of_tensors_that_stay() -> None:
    loader = make_loader({"batch_size": 4})
    resident = ResidentLoader(loader, CPU)
    first, second = islice(resident, 2)
    assert type(first) is RowsOf
    assert first.tensors is second.tensors
    assert second.rows.tolist() == [4, 5, 6, 7]
    for tensor in first:
        tensor.zero_()
    assert loader.dataset[1][1] == 1
    assert [len(each) for each in list(resident)[-1]] == [2, 2, 2]


def test_it_answers_for_the_loader() -> None:
    loader = make_loader({"batch_size": 4, "drop_last": True})
    resident = ResidentLoader(loader, CPU)
    assert len(resident) == 5
    assert resident.dataset is loader.dataset
    assert resident.batch_size == 4
    with pytest.raises(AttributeError):
        resident.nonsense  # noqa: B018
    assert resident_bytes(loader) == ROWS * (6 * 4 + 8 + 1)


class Items(Dataset[int]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return index


class MyRandom(RandomSampler):
    pass


class MyBatches(BatchSampler):
    pass


class MyLoader(DataLoader[Any]):
    pass


PLAIN = TensorDataset(torch.ones(4))
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (lambda: [1], "it is a list, not a plain DataLoader"),
    "a subclass": (lambda: MyLoader(PLAIN), "it is a MyLoader, not a plain DataLoader"),
    "other data": (
        lambda: DataLoader(Items()),
        "its dataset is a Items, not a plain TensorDataset",
    ),
    "a collate function": (
        lambda: DataLoader(PLAIN, collate_fn=list),
        "it has a collate function of its own",
    ),
    "no batches": (
        lambda: DataLoader(PLAIN, batch_size=None),
        "it gives single items (batch_size=None), not batches",
    ),
    "a sampler of one's own": (
        lambda: DataLoader(PLAIN, sampler=MyRandom(PLAIN)),
        "its sampler is a MyRandom, whose draws cannot be taken together",
    ),
    "a list as a sampler": (
        lambda: DataLoader(PLAIN, sampler=[0, 1]),
        "its sampler is a list, whose draws cannot be taken together",
    ),
    "a batch sampler of one's own": (
        lambda: DataLoader(PLAIN, batch_sampler=MyBatches(SequentialSampler(PLAIN), 2, False)),
        "it has a batch sampler of its own, MyBatches",
    ),
    "a sampler that draws as it goes": (
        lambda: DataLoader(
            PLAIN, sampler=RandomSampler(PLAIN, replacement=True, generator=own_generator())
        ),
        "its sampler draws from a generator of its own as it goes",
    ),
    "a sampler that draws all rows twice": (
        lambda: DataLoader(
            PLAIN, sampler=RandomSampler(PLAIN, num_samples=8, generator=own_generator())
        ),
        "its sampler draws from a generator of its own as it goes",
    ),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_it_cannot_stand_for_is_refused_with_the_reason(
    make: Callable[[], Any], reason: str
) -> None:
    assert cannot_reside(make()) == reason


@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_what_it_can_stand_for_is_not_refused(options: Callable[[], Options]) -> None:
    assert cannot_reside(make_loader(options())) is None
