"""The batched loader against the DataLoader that it stands for: batches, order, random numbers."""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from hasten.data.loaders.batched import BatchedLoader, cannot_batch
from hasten.data.loaders.columns import ODD_TENSORS
from hasten.errors import HastenError
from torch_state import bits, random_settings

ROWS = 22
Options = dict[str, Any]


def make_dataset() -> TensorDataset:
    """Rows of several shapes and types, a NaN among them; scalars as targets."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(ROWS, 2, 3, generator=generator)
    images[3, 1, 1] = float("nan")
    return TensorDataset(
        images,
        torch.arange(ROWS),
        torch.randint(0, 255, (ROWS, 4), dtype=torch.uint8, generator=generator),
        torch.arange(ROWS) % 3 == 0,
        torch.randn(ROWS, 1, generator=generator).to(torch.bfloat16),
    )


class TwiceTheEven(Sampler[int]):
    """Draws as it goes, from two generators, so that it matters when it is asked."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(ROWS):
            yield (int(torch.randint(ROWS, ())) + random.randrange(ROWS)) % ROWS

    def __len__(self) -> int:
        return ROWS


class Backwards(Sampler[Any]):
    """Gives indices of other types than int, counted from the end."""

    def __iter__(self) -> Iterator[Any]:
        for index in range(1, ROWS + 1):
            yield np.int64(-index) if index % 2 else torch.tensor(-index)

    def __len__(self) -> int:
        return ROWS


class DrawnAtOnce(BatchSampler):
    """Decides when it is asked for an iterator, not when that is asked for a batch."""

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(ROWS).tolist()
        return iter([tuple(order[:3]), torch.tensor(order[3:10]), range(4)])

    def __len__(self) -> int:
        return 3


class Growing(BatchSampler):
    """Batches of unequal size, drawn as it goes."""

    def __iter__(self) -> Iterator[list[int]]:
        for size in (1, 4, 2):
            yield torch.randint(ROWS, (size,)).tolist()

    def __len__(self) -> int:
        return 3


class OtherBatches(Sampler[list[int]]):
    """No BatchSampler, without a length; draws as it goes, and counts from the end."""

    def __iter__(self) -> Iterator[list[int]]:
        for size in (3, 1, 4):
            yield [int(index) - ROWS for index in torch.randint(2 * ROWS, (size,))]


def own_generator() -> torch.Generator:
    return torch.Generator().manual_seed(8)


# Made anew for each loader: a sampler or a generator may have a state of its own.
CASES: dict[str, Callable[[], Options]] = {
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "shuffled, last dropped": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "in order": lambda: {"batch_size": 4},
    "in order, last dropped": lambda: {"batch_size": 4, "drop_last": True},
    "one row": lambda: {"shuffle": True},
    "all rows": lambda: {"batch_size": ROWS, "shuffle": True},
    "with replacement": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(ROWS), replacement=True, num_samples=30),
    },
    "weighted": lambda: {
        "batch_size": 4,
        "sampler": WeightedRandomSampler(list(range(1, ROWS + 1)), 17),
    },
    "a subset": lambda: {"batch_size": 4, "sampler": SubsetRandomSampler(range(0, ROWS, 2))},
    "a sampler that draws as it goes": lambda: {"batch_size": 4, "sampler": TwiceTheEven()},
    "a sampler of odd indices": lambda: {"batch_size": 4, "sampler": Backwards()},
    "a batch sampler that draws at once": lambda: {
        "batch_sampler": DrawnAtOnce(SequentialSampler(range(ROWS)), 4, False)
    },
    "a batch sampler that draws as it goes": lambda: {
        "batch_sampler": Growing(SequentialSampler(range(ROWS)), 4, False)
    },
    "any iterable of batches": lambda: {"batch_sampler": [[0, -1], (3,), torch.tensor([2, 2])]},
    "batches drawn as they are asked for": lambda: {"batch_sampler": OtherBatches()},
    "its own generator": lambda: {"batch_size": 4, "shuffle": True, "generator": own_generator()},
    "a sampler with its own generator": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(ROWS), generator=own_generator()),
    },
}
WORKERS: dict[str, Callable[[], Options]] = {
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "its own generator": lambda: {"batch_size": 4, "shuffle": True, "generator": own_generator()},
    "a sampler that draws as it goes": lambda: {
        "batch_size": 2,
        "sampler": TwiceTheEven(),
        "prefetch_factor": 3,
    },
    "a batch sampler that draws at once": lambda: {
        "batch_sampler": DrawnAtOnce(SequentialSampler(range(ROWS)), 4, False)
    },
}


def make_loader(options: Options) -> DataLoader[Any]:
    return DataLoader(make_dataset(), **options)


def watch(
    loader: Any, *, epochs: int = 3, stop_after: int | None = None
) -> list[tuple[list[Any], dict[str, object], object]]:
    """For each epoch: its batches, bit for bit, and all random generators after it."""
    torch.manual_seed(11)
    random.seed(12)
    seen = []
    for _ in range(epochs):
        batches = []
        for batch in islice(loader, stop_after):
            batches.append(_as_bits(batch))
            torch.rand(1), random.random()  # as a training draws, between the batches
        original = getattr(loader, "loader", loader)
        own = bits(original.generator.get_state()) if original.generator else None
        seen.append((batches, random_settings(), own))
    _end_workers(getattr(loader, "loader", loader))
    return seen


def _as_bits(batch: Any) -> Any:
    assert type(batch) is list
    return [(bits(tensor), tensor.stride()) for tensor in batch]


def _end_workers(loader: DataLoader[Any]) -> None:
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()


@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_batches_and_random_numbers_are_those_of_the_data_loader(
    options: Callable[[], Options],
) -> None:
    assert watch(BatchedLoader(make_loader(options()))) == watch(make_loader(options()))


@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_an_epoch_that_is_broken_off_leaves_the_same_random_numbers(
    options: Callable[[], Options],
) -> None:
    found = watch(BatchedLoader(make_loader(options())), stop_after=2)
    assert found == watch(make_loader(options()), stop_after=2)


@pytest.mark.parametrize("persistent", [False, True], ids=["new workers", "persistent workers"])
@pytest.mark.parametrize("options", WORKERS.values(), ids=list(WORKERS))
def test_a_loader_with_workers_is_matched_without_any(
    options: Callable[[], Options], persistent: bool
) -> None:
    workers = {"num_workers": 2, "persistent_workers": persistent}
    expected = watch(make_loader({**options(), **workers}))
    batched = BatchedLoader(make_loader({**options(), **workers}))
    assert watch(batched) == expected
    assert batched.loader._iterator is None


@pytest.mark.parametrize("persistent", [False, True], ids=["new workers", "persistent workers"])
def test_a_broken_off_epoch_of_workers_leaves_the_same_random_numbers(persistent: bool) -> None:
    options = {**WORKERS["a sampler that draws as it goes"](), "num_workers": 2}
    options["persistent_workers"] = persistent
    expected = watch(make_loader(options), stop_after=2)
    assert watch(BatchedLoader(make_loader(options)), stop_after=2) == expected


def test_persistent_workers_that_have_begun_are_not_seeded_again() -> None:
    options = {"batch_size": 8, "shuffle": True, "num_workers": 2, "persistent_workers": True}
    expected, begun = make_loader(options), make_loader(options)
    list(expected), list(begun)
    batched = BatchedLoader(begun)
    assert watch(batched, epochs=2) == watch(expected, epochs=2)


@pytest.mark.parametrize("workers", [0, 2])
def test_two_iterators_at_once_are_those_of_two_data_loaders(workers: int) -> None:
    def interleave(loader: Any) -> list[Any]:
        torch.manual_seed(5)
        first = iter(loader)
        second = iter(loader)
        torch.rand(3)
        found = [_as_bits(next(each)) for each in (second, first, first, second)]
        return [*found, random_settings()]

    options = {"batch_size": 4, "shuffle": True, "num_workers": workers}
    expected = interleave(make_loader(options))
    assert interleave(BatchedLoader(make_loader(options))) == expected


def test_it_has_the_length_of_the_loader() -> None:
    assert len(BatchedLoader(make_loader({"batch_size": 4}))) == 6
    assert len(BatchedLoader(make_loader({"batch_size": 4, "drop_last": True}))) == 5


def test_writing_to_a_batch_does_not_write_to_the_data() -> None:
    loader = make_loader({"batch_size": 4})
    batch = next(iter(BatchedLoader(loader)))
    for tensor in batch:
        tensor.zero_()
    assert loader.dataset[1][1] == 1


def test_an_index_beyond_the_data_is_an_index_error_as_ever() -> None:
    options = {"batch_size": 2, "sampler": [0, ROWS]}
    for loader in (make_loader(options), BatchedLoader(make_loader(options))):
        with pytest.raises(IndexError):
            next(iter(loader))


@pytest.mark.parametrize("images", [torch.randn(6, 1, 4, 4), torch.randn(6, 3, 1, 1)])
def test_the_strides_are_those_of_the_data_loader_where_a_layout_is_ambiguous(
    images: Tensor,
) -> None:
    """One channel or one pixel: contiguous and channels-last at once, by shape alone."""
    layout = images.to(memory_format=torch.channels_last)
    assert layout.is_contiguous()
    loader = DataLoader(TensorDataset(layout), batch_size=2)
    assert watch(BatchedLoader(loader), epochs=1) == watch(loader, epochs=1)


@pytest.mark.parametrize("workers", [0, 2])
def test_tensors_that_are_views_of_others_are_gathered_as_they_are_stacked(workers: int) -> None:
    tensors = [
        torch.randn(3, ROWS).T,
        torch.randn(2 * ROWS, 4)[::2, 1:3],
        torch.randn(1, 5).expand(ROWS, 5),
        torch.randn(ROWS, 4, 3).permute(0, 2, 1),
        torch.randn(ROWS, 3, 2, 2).to(memory_format=torch.channels_last),
    ]
    options: Options = {"batch_size": 4, "shuffle": True, "num_workers": workers}
    loader = DataLoader(TensorDataset(*tensors), **options)
    assert watch(BatchedLoader(loader), epochs=2) == watch(loader, epochs=2)


def test_an_empty_batch_is_the_error_that_it_ever_was() -> None:
    for loader in (loaders := [make_loader({"batch_sampler": [[0], []]}) for _ in range(2)]):
        source = iter(loader if loader is loaders[0] else BatchedLoader(loader))
        next(source)
        with pytest.raises(IndexError, match="list index out of range"):
            next(source)


def test_a_row_beyond_the_data_fails_in_its_turn_and_not_before() -> None:
    sampler = lambda: SubsetRandomSampler(range(ROWS + 1))  # noqa: E731
    given = []
    for make in (lambda loader: loader, BatchedLoader):
        torch.manual_seed(1)
        source = iter(make(make_loader({"batch_size": 2, "sampler": sampler()})))
        given.append(0)

        def count(source: Iterator[Any] = source) -> None:
            for _ in source:
                given[-1] += 1

        with pytest.raises(IndexError):
            count()
    assert given[0] == given[1] > 1


class OtherTensors(TensorDataset):
    pass


class OtherLoader(DataLoader[Any]):
    """As a user writes one that moves batches to a device."""

    def __iter__(self) -> Any:
        return (batch[0] + 1 for batch in super().__iter__())


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield torch.ones(2)


class OtherTensor(Tensor):
    pass


def of_tensor(tensor: Tensor) -> DataLoader[Any]:
    return DataLoader(TensorDataset(tensor), batch_size=2)


SINGLE = "it gives single items (batch_size=None), not batches"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (lambda: [1], "it is a list, not a plain DataLoader"),
    "a loader of its own class": (
        lambda: OtherLoader(make_dataset()),
        "it is a OtherLoader, not a plain DataLoader",
    ),
    "a batched loader": (
        lambda: BatchedLoader(make_loader({})),
        "it is a BatchedLoader, not a plain DataLoader",
    ),
    "a list as dataset": (
        lambda: DataLoader([1, 2]),  # type: ignore[arg-type]
        "its dataset is a list, not a plain TensorDataset",
    ),
    "a subclass of TensorDataset": (
        lambda: DataLoader(OtherTensors(torch.ones(2))),
        "its dataset is a OtherTensors, not a plain TensorDataset",
    ),
    "a stream": (
        lambda: DataLoader(Stream()),
        "its dataset is a Stream, a stream without indices",
    ),
    "a collate function": (
        lambda: make_loader({"collate_fn": lambda rows: rows}),
        "it has a collate function of its own",
    ),
    "no batches": (
        lambda: make_loader({"batch_size": None}),
        SINGLE,
    ),
    "no batches, collated": (
        lambda: make_loader({"batch_size": None, "collate_fn": torch.utils.data.default_collate}),
        SINGLE,
    ),
    "gradients": (lambda: of_tensor(torch.ones(4, requires_grad=True)), ODD_TENSORS),
    "a tensor subclass": (lambda: of_tensor(torch.ones(4).as_subclass(OtherTensor)), ODD_TENSORS),
    "a parameter": (
        lambda: of_tensor(nn.Parameter(torch.ones(4), requires_grad=False)),
        ODD_TENSORS,
    ),
    "a tensor elsewhere": (lambda: of_tensor(torch.ones(4, device="meta")), ODD_TENSORS),
    "a sparse tensor": (lambda: of_tensor(torch.eye(4).to_sparse()), ODD_TENSORS),
    "one odd tensor of two": (
        lambda: DataLoader(TensorDataset(torch.ones(3), torch.ones(3, requires_grad=True))),
        ODD_TENSORS,
    ),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_it_cannot_stand_for_is_refused_with_the_reason(
    make: Callable[[], Any], reason: str
) -> None:
    loader = make()
    assert cannot_batch(loader) == reason
    with pytest.raises(HastenError) as refusal:
        BatchedLoader(loader)
    assert str(refusal.value) == f"This loader cannot be batched: {reason}. Keep it as it is."


@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_what_it_can_stand_for_is_not_refused(options: Callable[[], Options]) -> None:
    assert cannot_batch(make_loader(options())) is None
