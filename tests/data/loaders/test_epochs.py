"""An epoch that is begun from any place in it gives what it would have given."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
)

from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.epochs import (
    EpochStart,
    begin_at,
    cannot_repeat,
    cannot_skip,
    own_states,
    restore_own,
)
from hasten.data.loaders.resident import ResidentLoader
from hasten.task.seed import random_state, restore_random_state, seed_everything

ROWS = 22


class Items(Dataset[Tensor]):
    """Counts how often it is asked, and may draw random numbers."""

    def __init__(self, *, draws: bool) -> None:
        self.draws, self.asked = draws, 0

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Tensor:
        self.asked += 1
        noise = torch.rand(2) + random.random() if self.draws else torch.zeros(2)
        return noise + index


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        for index in range(ROWS):
            yield torch.tensor(index) + torch.rand(())


def _tensors() -> TensorDataset:
    return TensorDataset(torch.arange(float(ROWS)))


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def _with_own_generator(workers: int) -> DataLoader[Any]:
    shared = _generator()
    return DataLoader(
        Items(draws=False), batch_size=4, shuffle=True, generator=shared, num_workers=workers
    )


def _replacing() -> DataLoader[Any]:
    sampler = RandomSampler(range(ROWS), replacement=True, generator=_generator())
    return DataLoader(Items(draws=False), batch_size=4, sampler=sampler)


LOADERS: dict[str, Callable[[], Any]] = {
    "plain": lambda: DataLoader(Items(draws=False), batch_size=4, shuffle=True),
    "in order": lambda: DataLoader(Items(draws=False), batch_size=4),
    "drop last": lambda: DataLoader(Items(draws=False), batch_size=4, shuffle=True, drop_last=True),
    "weighted": lambda: DataLoader(
        Items(draws=False), batch_size=4, sampler=WeightedRandomSampler([1.0] * ROWS, ROWS)
    ),
    "random items": lambda: DataLoader(Items(draws=True), batch_size=4, shuffle=True),
    "workers": lambda: DataLoader(Items(draws=False), batch_size=4, shuffle=True, num_workers=2),
    "random items in workers": lambda: DataLoader(
        Items(draws=True), batch_size=4, shuffle=True, num_workers=2
    ),
    "workers that live on": lambda: DataLoader(
        Items(draws=False), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True
    ),
    "own generator": lambda: _with_own_generator(0),
    "own generator, workers": lambda: _with_own_generator(2),
    "replacing": _replacing,
    "stream": lambda: DataLoader(Stream(), batch_size=4),
    "batched": lambda: BatchedLoader(DataLoader(_tensors(), batch_size=4, shuffle=True)),
    "resident": lambda: ResidentLoader(
        DataLoader(_tensors(), batch_size=4, shuffle=True), torch.device("cpu")
    ),
    "batched, workers that live on": lambda: BatchedLoader(
        DataLoader(_tensors(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    ),
}


def _values(batch: Any) -> list[float]:
    return [
        float(each)
        for tensor in ([batch] if isinstance(batch, Tensor) else batch)
        for each in tensor.reshape(-1)
    ]


def _train(loader: Any, source: Iterator[Any], seen: list[list[float]], stop_at: int = -1) -> None:
    for batch in source:
        seen.append([*_values(batch), float(torch.rand(())), random.random()])  # as dropout draws
        if len(seen) == stop_at:
            return


@pytest.mark.parametrize("given", [1, 3, 5, 6])
@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("name", LOADERS)
def test_it_goes_on_as_if_it_had_never_stopped(name: str, epoch: int, given: int) -> None:
    given = min(given, 5) if name == "drop last" else given
    seed_everything(3)
    loader = LOADERS[name]()
    before: list[list[float]] = []
    for _ in range(epoch):
        _train(loader, iter(loader), before)
    start = EpochStart.now(loader, later=epoch > 0)
    seen: list[list[float]] = []
    source = iter(loader)
    _train(loader, source, seen, stop_at=given)
    state, own = random_state(), own_states(loader)
    _train(loader, source, seen)
    _train(loader, iter(loader), seen)
    end = float(torch.rand(()))

    seed_everything(99)  # another process
    again = LOADERS[name]()
    rest = begin_at(again, start, given)
    restore_own(again, own)
    restore_random_state(state)
    found = seen[:given]
    _train(again, rest, found)
    _train(again, iter(again), found)
    assert found == seen
    assert float(torch.rand(())) == end


def test_what_was_consumed_is_not_loaded_again() -> None:
    loader = LOADERS["plain"]()
    assert cannot_skip(loader) is None
    start = EpochStart.now(loader, later=False)
    rest = begin_at(loader, start, 4)
    loader.dataset.asked = 0  # by the question whether its items are random
    assert len(list(rest)) == 2
    assert loader.dataset.asked == ROWS - 16
    assert len(list(loader)) == 6  # and the loader is as it was


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("random items in workers", "its items may draw random numbers in workers"),
        ("replacing", "its sampler draws from a generator of its own as it goes"),
        ("stream", "only iterating tells what it gives"),
        ("resident", "only iterating tells what it gives"),
    ],
)
def test_what_cannot_be_skipped_is_loaded_again(name: str, reason: str) -> None:
    assert cannot_skip(LOADERS[name]()) == reason


class OwnNoise(Items):
    def __init__(self) -> None:
        super().__init__(draws=False)
        self.generator = _generator()

    def __getitem__(self, index: int) -> Tensor:
        return torch.rand(2, generator=self.generator)


class CountsEpochs(Sampler[int]):
    """Each epoch has an order of its own, by a count that no checkpoint has."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        generator = torch.Generator().manual_seed(self.epoch)
        yield from torch.randperm(ROWS, generator=generator).tolist()

    def __len__(self) -> int:
        return ROWS


class OwnCollate:
    def __init__(self) -> None:
        self.generator = _generator()

    def __call__(self, items: list[Tensor]) -> Tensor:
        return torch.stack(items) + torch.rand((), generator=self.generator)


def _stack(items: list[Tensor]) -> Tensor:
    return torch.stack(items)


def _jittered(items: list[Tensor]) -> Tensor:
    return torch.stack(items) + torch.rand(())


class OwnStream(IterableDataset[Tensor]):
    def __init__(self) -> None:
        self.generator = _generator()

    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(ROWS):
            yield torch.rand(2, generator=self.generator)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: DataLoader(Items(draws=False), batch_size=4, sampler=CountsEpochs()),
            "its sampler, a CountsEpochs, has a memory of its own",
        ),
        (lambda: DataLoader(OwnStream(), batch_size=4), "its dataset has a memory of its own"),
        (lambda: DataLoader(Stream(), batch_size=4), None),
        (
            lambda: DataLoader(Items(draws=False), batch_size=4, collate_fn=OwnCollate()),
            "its collate_fn has a memory of its own",
        ),
        (
            lambda: DataLoader(
                Items(draws=False), batch_size=4, collate_fn=OwnCollate(), num_workers=1
            ),
            None,
        ),
        (lambda: DataLoader(Items(draws=True), batch_size=4, collate_fn=_stack), None),
        (lambda: _with_own_generator(0), None),
        (_replacing, None),
    ],
)
def test_loaders_with_a_memory_of_their_own_are_known(
    make: Callable[[], Any], reason: str | None
) -> None:
    loader = make()
    state, own = random_state(), own_states(loader)
    assert cannot_repeat(loader, EpochStart.now(loader, later=False)) == reason
    assert all(map(torch.equal, own_states(loader), own))
    assert torch.equal(random_state()["torch"], state["torch"])


def test_items_that_no_other_process_can_draw_again_are_known() -> None:
    loader = DataLoader(OwnNoise(), batch_size=4)
    reason = "its items draw from a random generator of the dataset's own"
    assert cannot_repeat(loader, EpochStart.now(loader, later=False)) == reason
    lives_on = DataLoader(Items(draws=True), num_workers=1, persistent_workers=True)
    first, later = (EpochStart.now(lives_on, later=each) for each in (False, True))
    reason = "its items draw random numbers in workers that have lived since the first epoch"
    assert cannot_repeat(lives_on, first) is None
    assert cannot_repeat(lives_on, later) == reason
    jitters = DataLoader(
        Items(draws=False), num_workers=1, persistent_workers=True, collate_fn=_jittered
    )
    assert cannot_repeat(jitters, later) == reason
    plain = LOADERS["plain"]()
    assert cannot_repeat(plain, EpochStart.now(plain, later=True)) is None
