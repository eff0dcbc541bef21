"""Windows over series: views that copy nothing, and a dataset of many series."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

import row_wise
from hasten.data.encoders import WindowDataset, sliding_windows, window_ends
from hasten.errors import HastenError

Drives = tuple[list[Tensor], list[Tensor]]


def drives(*moments: int, channels: int = 2) -> Drives:
    """Series and targets in which no value occurs twice."""
    total = sum(moments)
    series = torch.arange(float(total * channels)).view(total, channels).split(moments)
    targets = (torch.arange(float(total)) + 1e4).view(total, 1).split(moments)
    return list(series), list(targets)


@settings(deadline=None)
@given(
    moments=st.integers(1, 40),
    length=st.integers(1, 40),
    stride=st.integers(1, 45),
    shape=st.sampled_from([(), (1,), (3,), (2, 3)]),
)
def test_any_windows_are_those_made_in_a_loop(
    moments: int, length: int, stride: int, shape: tuple[int, ...]
) -> None:
    series = torch.randn(moments, *shape)
    if length > moments:
        with pytest.raises(HastenError, match=f"{moments} moments has no window of {length}"):
            sliding_windows(series, length, stride)
        return
    times = torch.arange(moments)
    expected, ends = row_wise.make_windows(series, times, length, stride)
    assert torch.equal(sliding_windows(series, length, stride), expected)
    array = sliding_windows(series.numpy(), length, stride)
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, expected.numpy())
    assert torch.equal(window_ends(moments, length, stride), ends)


def test_windows_share_the_storage_of_their_series() -> None:
    series = torch.zeros(1000, 3)
    windows = sliding_windows(series, 200, 2)
    assert windows.shape == (401, 200, 3)
    assert windows.data_ptr() == series.data_ptr()
    assert windows.untyped_storage().data_ptr() == series.untyped_storage().data_ptr()
    assert windows[7].data_ptr() == series[14:].data_ptr()
    series[210, 1] = 5.0
    assert windows[:, :, 1].count_nonzero() == 100  # those that begin at 12, 14 ... 210
    windows[0, 3, 2] = 7.0
    assert series[3, 2] == 7.0


def test_windows_of_an_array_share_its_memory_and_are_read_only() -> None:
    series = np.zeros((50, 2))
    windows = sliding_windows(series, 10, 3)
    assert np.shares_memory(windows, series)
    series[12] = 1.0
    assert windows[1, 9].tolist() == [1.0, 1.0]
    assert not windows.flags.writeable


def test_a_view_of_a_view_and_gradients_go_through() -> None:
    series = torch.randn(30, 4, requires_grad=True)
    sliding_windows(series[::3, 1:3], 4).sum().backward()
    assert series.grad is not None
    assert series.grad[:, 1].tolist()[::3] == [1, 2, 3, 4, 4, 4, 4, 3, 2, 1]


@settings(deadline=None)
@given(
    moments=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    length=st.integers(1, 6),
    stride=st.integers(1, 4),
    channels=st.integers(1, 2),
)
def test_windows_of_many_series_never_cross_from_one_to_the_next(
    moments: list[int], length: int, stride: int, channels: int
) -> None:
    series, targets = drives(*moments, channels=channels)
    if max(moments) < length:
        with pytest.raises(HastenError, match="has no window"):
            WindowDataset(series, targets, length=length, stride=stride)
        return
    data = WindowDataset(series, targets, length=length, stride=stride)
    parts = [
        row_wise.make_windows(*each, length, stride)
        for each in zip(series, targets, strict=True)
        if len(each[0]) >= length
    ]
    windows, ends = (torch.cat(each) for each in zip(*parts, strict=True))
    assert len(data) == len(windows)
    assert data.without_windows == [i for i, size in enumerate(moments) if size < length]
    gathered = data.gather(range(len(data)))
    assert torch.equal(gathered[0], windows)
    assert torch.equal(gathered[1], ends)
    for one, window, end in zip(data, windows, ends, strict=True):  # type: ignore[call-overload]
        assert torch.equal(one[0], window)
        assert torch.equal(one[1], end)


class OneByOne(WindowDataset):
    __getitems__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_gives_the_same_batches_as_item_by_item(workers: int) -> None:
    series, targets = drives(30, 4, 25)
    batches = []
    for kind in (WindowDataset, OneByOne):
        data = kind(series, targets, length=5, stride=2)
        order = torch.Generator().manual_seed(3)
        loader: DataLoader[Any] = DataLoader(
            data, batch_size=4, shuffle=True, generator=order, num_workers=workers
        )
        batches.append(list(loader))
    assert len(batches[0]) == 6
    for fast, slow in zip(*batches, strict=True):
        assert [each.shape for each in fast] == [each.shape for each in slow]
        assert all(map(torch.equal, fast, slow))


def test_a_loader_over_numbers_that_gathers_gives_the_same_batches() -> None:
    data = WindowDataset(*drives(30, 4, 25), length=5, stride=2)
    batches = []
    for options in ({"dataset": data}, {"dataset": range(len(data)), "collate_fn": data.gather}):
        order = torch.Generator().manual_seed(3)
        loader: DataLoader[Any] = DataLoader(batch_size=4, shuffle=True, generator=order, **options)
        batches.append(list(loader))
    for plain, gathered in zip(*batches, strict=True):
        assert all(map(torch.equal, plain, gathered))


def test_a_batch_is_gathered_in_the_order_asked_for() -> None:
    data = WindowDataset(*drives(8, 8), length=3)
    for indices in ([5, 0, 5, -1], torch.tensor([5, 0, 5, -1]), np.array([5, 0, 5, -1])):
        windows, targets = data.gather(indices)
        assert torch.equal(windows, torch.stack([data[int(i)][0] for i in indices]))
        assert torch.equal(targets, torch.stack([data[int(i)][1] for i in indices]))
    windows, targets = data.gather([])
    assert windows.shape == (0, 3, 2)
    assert data.__getitems__([]) == []
    for index in (12, -13):
        with pytest.raises(IndexError):
            data[index]
        with pytest.raises(IndexError):
            data.gather([index])


def test_one_series_is_kept_and_not_copied() -> None:
    (series,), (targets,) = drives(10)
    data = WindowDataset([series], [targets], length=4)
    assert data[2][0].data_ptr() == series[2:].data_ptr()
    assert data[2][1].data_ptr() == targets[5:].data_ptr()
    series[5] = 77.0
    assert data.gather([2])[0][0, 3].tolist() == [77.0, 77.0]


def test_without_targets_an_item_is_the_window_alone() -> None:
    series, _ = drives(5, 6)
    data = WindowDataset(series, length=4)
    assert [len(each) for each in (data[0], data.gather([0, 1]), data.__getitems__([3])[0])] == [
        1
    ] * 3


def test_what_makes_no_windows_is_refused() -> None:
    series, targets = drives(10, 4)
    with pytest.raises(HastenError, match="length 0 and stride 1 do not move"):
        sliding_windows(series[0], 0)
    with pytest.raises(HastenError, match="length 3 and stride 0 do not move"):
        window_ends(10, 3, 0)
    with pytest.raises(HastenError, match=r"Targets of \[4, 10\] moments .* series of \[10, 4\]"):
        WindowDataset(series, targets[::-1], length=3)
    with pytest.raises(HastenError, match="series: nothing, where a list of tensors belongs"):
        WindowDataset([], length=3)
    with pytest.raises(HastenError, match="series: a tensor, where a list of tensors belongs"):
        WindowDataset(series[0], length=1)  # type: ignore[arg-type]
    for other in (torch.zeros(9, 3), torch.zeros(9, 2, dtype=torch.float64), torch.zeros(9)):
        with pytest.raises(HastenError, match="series: not all have one shape"):
            WindowDataset([series[0], other], length=3)
