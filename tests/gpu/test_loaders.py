"""Loaders of in-memory data on a CUDA device: order, contents, and that streams do not race."""

import random
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from hasten.data.freezing.freeze import CannotFreeze, freeze
from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.prefetched import PrefetchedLoader
from hasten.data.loaders.resident import ResidentLoader
from hasten.task.seed import seed_everything
from torch_state import bits, random_settings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda")
ROWS = 1003
OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": lambda: {"batch_size": 7, "shuffle": True},
    "last dropped": lambda: {"batch_size": 64, "shuffle": True, "drop_last": True},
    "weighted": lambda: {"batch_size": 5, "sampler": WeightedRandomSampler([1.0] * ROWS, 900)},
    "workers": lambda: {"batch_size": 32, "shuffle": True, "num_workers": 2},
    "batches of one's own": lambda: {"batch_sampler": [[0, -1], [5, 5, 5], [999]]},
}


def tensors(rows: int = ROWS, width: int = 33) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(
        torch.randn(rows, width, generator=generator),
        torch.arange(rows),
        torch.arange(rows) % 3 == 0,
    )


class Items(Dataset[Any]):
    def __init__(self) -> None:
        self.rows = torch.randn(ROWS, 5, generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        return {"row": self.rows[index], "number": index}


def watch(loader: Any) -> list[Any]:
    seed_everything(11)
    seen: list[Any] = []
    for _ in range(3):
        for batch in loader:
            leaves = batch.values() if isinstance(batch, dict) else batch
            seen.append([bits(each) for each in leaves])
            torch.rand(1), random.random()
        seen.append(random_settings())
    return seen


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_prefetched_batches_are_those_of_the_data_loader(options: Any) -> None:
    loader = PrefetchedLoader(BatchedLoader(DataLoader(tensors(), **options())), CUDA)
    assert all(each.device.type == "cuda" for each in next(iter(loader)))
    loader = PrefetchedLoader(BatchedLoader(DataLoader(tensors(), **options())), CUDA)
    assert watch(loader) == watch(DataLoader(tensors(), **options()))


def test_frozen_items_are_those_of_the_data_loader_on_the_device() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Items(), batch_size=7, shuffle=True)

    expected = watch(make())
    torch.ones(1, device=CUDA)  # the process that reads is forked from one that uses CUDA
    one, other = make(), make()
    prefetched = PrefetchedLoader(BatchedLoader(one, freeze(one, most_bytes=2**20)), CUDA)
    assert watch(prefetched) == expected
    assert watch(ResidentLoader(other, CUDA, freeze(other, most_bytes=2**20))) == expected


def test_a_dataset_on_the_device_is_refused() -> None:
    class OnDevice(Items):
        def __init__(self) -> None:
            super().__init__()
            self.rows = self.rows.to(CUDA)

    with pytest.raises(CannotFreeze, match="holds a tensor on cuda"):
        freeze(DataLoader(OnDevice()), most_bytes=2**20)


class MovesItems(Items):
    def __getitem__(self, index: int) -> Tensor:
        return self.rows[index].to(CUDA)


def test_items_that_are_moved_to_the_device_are_refused() -> None:
    torch.ones(1, device=CUDA)
    with pytest.raises(CannotFreeze, match="CUDA"):
        freeze(DataLoader(MovesItems()), most_bytes=2**20)


@pytest.mark.parametrize("keep", [0, 3])
def test_a_slow_consumer_sees_whole_batches_whose_memory_is_not_taken(keep: int) -> None:
    """Long kernels run before each use, so that the host, the copies and new memory are far ahead;
    what they then read must still be the batch."""
    rows, width = 60_000, 512
    dataset = TensorDataset(torch.arange(rows).float()[:, None].expand(rows, width).contiguous())
    loader = PrefetchedLoader(BatchedLoader(DataLoader(dataset, batch_size=64, shuffle=True)), CUDA)
    weight = torch.randn(2048, 2048, device=CUDA)
    torch.manual_seed(3)
    sums, held = [], []
    for (batch,) in islice(loader, 400):
        for _ in range(4):
            weight @ weight
        sums.append(batch.sum(1))
        held = [*held, batch][-keep:] if keep else []
        del batch
    torch.manual_seed(3)
    plain = DataLoader(dataset, batch_size=64, shuffle=True)
    expected = [batch.sum(1) for (batch,) in islice(plain, 400)]
    assert torch.equal(torch.cat(sums).cpu(), torch.cat(expected))


def test_a_consumer_on_a_stream_of_its_own_sees_whole_batches() -> None:
    loader = PrefetchedLoader(BatchedLoader(DataLoader(tensors(20_000, 256), batch_size=64)), CUDA)
    with torch.cuda.stream(torch.cuda.Stream()):
        found = torch.cat([batch[0].clone() for batch in loader]).cpu()
    assert torch.equal(found, tensors(20_000, 256).tensors[0])


def test_resident_batches_are_whole_on_whatever_stream_they_are_looked_at() -> None:
    """Those of a chunk are gathered together by whoever looks first."""
    resident = ResidentLoader(DataLoader(tensors(20_000, 256), batch_size=64), CUDA)
    weight, other = torch.randn(4096, 4096, device=CUDA), torch.cuda.Stream()
    found = []
    for number, batch in enumerate(resident):
        if number % 2:
            with torch.cuda.stream(other):
                found.append(batch[0].clone())
        else:
            weight @ weight  # the gather of the others waits behind it
            found.append(batch[0].clone())
    torch.cuda.synchronize()
    assert torch.equal(torch.cat(found).cpu(), tensors(20_000, 256).tensors[0])


def test_a_resident_batch_that_is_looked_at_in_a_capture_is_gathered_there() -> None:
    resident = ResidentLoader(DataLoader(tensors(), batch_size=64), CUDA)
    source = iter(resident)
    first, graph = next(source), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = first[0] * 2
    graph.replay()
    expected = tensors().tensors[0]
    assert torch.equal(inside.cpu(), expected[:64] * 2)
    assert torch.equal(first[0].cpu(), expected[:64])
    assert torch.equal(next(source)[0].cpu(), expected[64:128])


def test_no_thread_is_left_on_the_device() -> None:
    for _ in islice(PrefetchedLoader(BatchedLoader(DataLoader(tensors(), batch_size=4)), CUDA), 9):
        pass
    assert not [each for each in threading.enumerate() if "prefetch" in each.name]
