"""Windows that slide over series, as views: a window is a place in its series, never a copy."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from hasten.errors import HastenError


@overload
def sliding_windows(series: Tensor, length: int, stride: int = 1) -> Tensor: ...
@overload
def sliding_windows(series: npt.NDArray[Any], length: int, stride: int = 1) -> npt.NDArray[Any]: ...
def sliding_windows(
    series: Tensor | npt.NDArray[Any], length: int, stride: int = 1
) -> Tensor | npt.NDArray[Any]:
    """All windows of ``length`` moments, each ``stride`` moments after the one before.

    From (moments, ...) to (windows, length, ...), of the type that was given. It is a view: nothing
    is copied, what is written to the series shows in all windows over it, and a numpy view is
    read-only. Moments behind the last whole window are in none.
    """
    count_windows(len(series), length, stride)
    if isinstance(series, Tensor):
        return series.unfold(0, length, stride).movedim(-1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(series, length, axis=0)
    return np.moveaxis(windows[::stride], -1, 1)


def window_ends(moments: int, length: int, stride: int = 1) -> Tensor:
    """The last moment of each window over a series of ``moments``: where its target stands."""
    count = count_windows(moments, length, stride)
    return torch.arange(count) * stride + (length - 1)


def count_windows(moments: int, length: int, stride: int) -> int:
    """How many windows there are; refused where there is none."""
    if length < 1 or stride < 1:
        raise HastenError(
            f"Windows of length {length} and stride {stride} do not move along a series.",
            fix="Use 1 or more for both.",
        )
    if moments < length:
        raise HastenError(
            f"A series of {moments} moments has no window of {length}.",
            fix="Use shorter windows, or leave the series out.",
        )
    return (moments - length) // stride + 1


class WindowDataset(Dataset[tuple[Tensor, ...]]):
    """The windows of one or several series, none of which crosses from one to the next.

    An item is ``(window,)``, or ``(window, target)`` where ``targets`` are given: one value or row
    for each moment of each series, of which a window has that of its last moment. A series that is
    shorter than a window has none; ``without_windows`` has the numbers of such series.

    One series is kept as it is. Several are copied once, end to end: so much memory as they have
    themselves, and 8 bytes for each window.
    """

    def __init__(
        self,
        series: Sequence[Tensor],
        targets: Sequence[Tensor] | None = None,
        *,
        length: int,
        stride: int = 1,
    ) -> None:
        self._series = _end_to_end(series, "series")
        moments = [len(each) for each in series]
        count_windows(max(moments), length, stride)
        self.length = length
        self.without_windows = [number for number, size in enumerate(moments) if size < length]
        self.starts = _starts(moments, length, stride)
        self._windows = sliding_windows(self._series, length)  # some cross; none has a start there
        self._targets = None if targets is None else _end_to_end(targets, "targets")
        if targets is not None and [len(each) for each in targets] != moments:
            raise HastenError(
                f"Targets of {[len(each) for each in targets]} moments do not belong to series of "
                f"{moments}.",
                fix="Give one target for each moment of each series.",
            )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """A view."""
        start = int(self.starts[index])  # raises IndexError, which ends a loop over the items
        window = self._series[start : start + self.length]
        if self._targets is None:
            return (window,)
        return window, self._targets[start + self.length - 1]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """What a DataLoader asks for: the items of a batch, as parts of tensors gathered at once.
        Its default collate function copies them once more; ``gather`` spares that."""
        return list(zip(*(each.unbind() for each in self.gather(indices)), strict=True))

    def gather(self, indices: Sequence[int] | Tensor) -> tuple[Tensor, ...]:
        """A batch, as a DataLoader would collate it: windows (rows, length, ...), and targets."""
        rows = torch.as_tensor(indices, dtype=torch.int64)
        starts = self.starts[rows].to(self._series.device)
        windows = self._windows.index_select(0, starts)
        if self._targets is None:
            return (windows,)
        return windows, self._targets.index_select(0, starts + (self.length - 1))


def _starts(moments: list[int], length: int, stride: int) -> Tensor:
    """Where windows begin in the series laid end to end."""
    begins = np.cumsum([0, *moments[:-1]])
    return torch.cat(
        [
            torch.arange(int(begin), int(begin) + size - length + 1, stride)
            for begin, size in zip(begins, moments, strict=True)
            if size >= length
        ]
    )


def _end_to_end(parts: Sequence[Tensor], name: str) -> Tensor:
    if isinstance(parts, Tensor) or not parts:
        raise HastenError(
            f"{name}: {'a tensor' if isinstance(parts, Tensor) else 'nothing'}, where a list of "
            "tensors belongs.",
            fix="Put every series into it, also a single one.",
        )
    kinds = {(tuple(each.shape[1:]), each.dtype, each.device) for each in parts}
    if len(kinds) > 1:
        raise HastenError(
            f"{name}: not all have one shape behind the first dimension, type and device: "
            f"{sorted(map(str, kinds))}.",
            fix="Bring them to the same.",
        )
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
