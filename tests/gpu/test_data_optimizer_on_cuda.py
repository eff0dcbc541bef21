"""The choice between ways of loading beside a CUDA device."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

import hasten
from hasten.data.ahead.manner import Manner
from hasten.data.ahead.threaded import ThreadedLoader
from hasten.data.ahead.workers import WorkersLoader
from hasten.records.loading import WorkerSettings
from torch_state import bits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def batches(loader: Any) -> list[Any]:
    torch.manual_seed(5)
    return [[bits(each) for each in list(batch)] for _ in range(2) for batch in loader]


@pytest.mark.parametrize(("share", "mode"), [(0.4, "resident"), (0.0, "prefetched")])
def test_data_in_memory_stays_on_the_device_or_is_sent_ahead(share: float, mode: str) -> None:
    own = DataLoader(TensorDataset(torch.randn(500, 8)), batch_size=32, shuffle=True)
    loader = hasten.DataPipelineOptimizer(resident_share=share).optimize_dataloader(own)
    assert loader.report.mode == mode
    assert all(tensor.is_cuda for batch in loader for tensor in list(batch))
    assert batches(loader) == batches(own)


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((4,), float(index))


def test_workers_pin_their_batches_and_a_copy_of_a_process_with_cuda_can_be_read() -> None:
    torch.ones(1, device="cuda")  # begins to use it, before anything forks
    own = DataLoader(Items(), batch_size=4, shuffle=True)
    loader = WorkersLoader(own, WorkerSettings(workers=2, pin=True))
    for batch in loader:
        assert batch.is_pinned()
    threaded = ThreadedLoader(own, threads=2, ahead=4)
    torch.manual_seed(3)
    expected = [each.tolist() for each in own]
    for ahead in (loader, WorkersLoader(own, WorkerSettings(workers=1), manner=Manner()), threaded):
        torch.manual_seed(3)
        assert [each.tolist() for each in ahead] == expected


def test_beside_a_device_the_search_ends_and_gives_the_same_batches() -> None:
    own = DataLoader(Items(), batch_size=4, shuffle=True)
    optimizer = hasten.DataPipelineOptimizer(memory_bytes=1, seconds=5)
    loader = optimizer.optimize_dataloader(own)
    assert optimizer.report is not None
    assert {each.mode for each in optimizer.report.refused} >= {"resident", "batched"}
    torch.manual_seed(3)
    expected = [each.tolist() for each in own]
    torch.manual_seed(3)
    assert [each.tolist() for each in loader] == expected
