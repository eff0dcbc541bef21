"""Where a captured step writes its loss, so that a loss which is kept stays what it was.

A graph writes to the same place at every replay. Copying the loss away would be one more launch a
step; instead the graph itself writes to the next place of a long tape, and the host hands out that
place. No place is written twice: a tape that is full is not wound back but replaced.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

LENGTH = 1 << 16
AT_ONCE = 256
"""Places are made ready for handing out in groups, which is cheaper than one by one."""


class Tape:
    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._values = torch.zeros(LENGTH, device=device, dtype=dtype)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = self._hand_out()
        self.is_full = False

    def write(self, value: Tensor) -> None:
        """Part of the graph: at each replay to the next place."""
        self._values.index_copy_(0, self._place, value.reshape(1))
        self._place.add_(1)

    def next(self) -> Tensor | None:
        """Where the next replay writes; None where the tape is full."""
        place = next(self._places, None)
        self.is_full = place is None
        return place

    def _hand_out(self) -> Iterator[Tensor]:
        for group in self._values.split(AT_ONCE):  # type: ignore[no-untyped-call]
            yield from group.unbind()
