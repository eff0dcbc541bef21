"""What the thread that gathers ahead does when something goes wrong, or when nobody listens."""

import gc
import threading
import traceback
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.loaders import prefetched
from hasten.data.loaders.batched import BatchedLoader
from hasten.data.loaders.chunks import Chunks
from hasten.data.loaders.prefetched import PrefetchedLoader

CPU = torch.device("cpu")


def make_loader(rows: int = 500, **options: Any) -> PrefetchedLoader:
    dataset = TensorDataset(torch.randn(rows, 3), torch.arange(rows))
    return PrefetchedLoader(BatchedLoader(DataLoader(dataset, batch_size=4, **options)), CPU)


def threads() -> list[str]:
    gc.collect()
    return [each.name for each in threading.enumerate() if "prefetch" in each.name]


def test_no_thread_outlives_an_epoch() -> None:
    loader = make_loader(shuffle=True)
    assert len(list(loader)) == 125
    assert threads() == []


def test_an_epoch_that_is_left_early_ends_its_thread() -> None:
    for number, _ in enumerate(make_loader()):
        assert threads() != []
        if number == 3:
            break
    assert threads() == []


def test_an_epoch_that_was_never_begun_has_no_thread() -> None:
    source = iter(make_loader())
    assert threads() == []
    next(source)
    del source
    assert threads() == []


def test_what_fails_in_the_thread_is_raised_where_the_batch_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail_later(self: Chunks, rows: Tensor) -> list[Tensor]:
        if 40 in rows:
            raise MemoryError("no room for these rows")
        return real(self, rows)

    real = Chunks.gather
    monkeypatch.setattr(Chunks, "gather", fail_later)
    source = iter(make_loader())
    for _ in range(7):  # 1 + 2 + 4, and the next chunk has row 40
        next(source)
    with pytest.raises(MemoryError, match="no room for these rows") as failure:
        next(source)
    names = [frame.name for frame in traceback.extract_tb(failure.value.__traceback__)]
    assert names[-1] == "fail_later"
    assert threads() == []


@pytest.mark.parametrize("size", [1, 3, 4, 7, 16, 33, 64])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_batch_of_a_chunk_begins_where_memory_of_its_own_would(size: int, count: int) -> None:
    columns = [torch.randn(400, 16), torch.arange(400), torch.arange(400) % 3 == 0]
    chunks = Chunks(columns, size, alignment=64, most_bytes=2**30)
    for partial in (0, size // 2):
        rows = torch.randint(400, (count * size + partial,))
        gathered = chunks.gather(rows)
        batches = list(chunks.cut(gathered, len(rows)))
        assert len(batches) == count + (partial > 0)
        for batch, expected in zip(batches, rows.split(size), strict=True):
            for piece, column in zip(batch, columns, strict=True):
                assert torch.equal(piece, column[expected])
                assert piece.data_ptr() % 64 == 0
                assert piece.is_contiguous()


def test_batches_that_could_only_be_aligned_at_a_high_price_are_gathered_one_by_one() -> None:
    wide = [torch.ones(9, 257)]
    assert Chunks(wide, 32, alignment=64, most_bytes=2**30).at_once == 64
    assert Chunks(wide, 33, alignment=64, most_bytes=2**30).at_once == 1
    assert Chunks(wide, 32, alignment=64, most_bytes=3 * 32 * 257 * 4).at_once == 3


def test_chunks_grow_so_that_the_first_batch_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    real = Chunks.gather

    def note(self: Chunks, rows: Tensor) -> list[Tensor]:
        sizes.append(len(rows) // 4)
        return real(self, rows)

    monkeypatch.setattr(Chunks, "gather", note)
    monkeypatch.setattr(prefetched, "CHUNK_BYTES", 20 * 4 * (12 + 8))
    list(make_loader())
    assert sizes == [1, 2, 4, 8, 16, 20, 20, 20, 20, 14]


def test_writing_to_one_batch_does_not_concern_the_gradients_of_another() -> None:
    for loader in (make_loader().loader, make_loader()):
        batches = iter(BatchedLoader(loader) if isinstance(loader, DataLoader) else loader)
        next(batches)
        (first, _), (second, _) = next(batches), next(batches)
        weight = torch.ones(3, requires_grad=True)
        loss = (first * weight).sum()
        second.zero_()
        loss.backward()
        assert weight.grad is not None
        assert torch.equal(weight.grad, first.sum(0))
