"""Many batches in one gather, cut apart afterwards.

A small batch costs more to ask for than to copy. So the rows of many are gathered into one block of
memory, of which each batch is a piece. Each piece begins where memory of its own would: how a
matrix product is computed may depend on that, and with it the last bits of its result. To this end
a few rows that nobody sees stand between the batches, unless they would cost too much.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

MOST_PADDING, LITTLE = 1 / 8, 4096
"""Of the bytes of a batch, or bytes; where more are needed batches are gathered one by one."""
MOST_BATCHES = 64


class Chunks:
    """How batches of ``size`` rows of some columns are gathered together."""

    def __init__(
        self, columns: Sequence[Tensor], size: int, *, alignment: int, most_bytes: int
    ) -> None:
        self._columns, self._size = columns, size
        row_bytes = [column[:1].numel() * column.element_size() for column in columns]
        self._padding = [_rows_between(each, size, alignment) for each in row_bytes]
        batch = sum(row_bytes) * size
        padding = sum(rows * each for rows, each in zip(self._padding, row_bytes, strict=True))
        fits = padding <= max(MOST_PADDING * batch, LITTLE)
        self.at_once = max(min(most_bytes // max(batch, 1), MOST_BATCHES), 1) if fits else 1
        """Batches in a chunk, at most."""

    def gather(self, rows: Tensor, *, pinned: bool = False) -> list[Tensor]:
        """All rows of some batches, of each column, with those between them."""
        indices = {padding: self._spread(rows, padding) for padding in set(self._padding)}
        found = []
        for column, padding in zip(self._columns, self._padding, strict=True):
            places, out = indices[padding], None
            if pinned:
                shape = (len(places), *column.shape[1:])
                out = torch.empty(shape, dtype=column.dtype, pin_memory=True)
            found.append(torch.index_select(column, 0, places, out=out))
        return found

    def _spread(self, rows: Tensor, padding: int) -> Tensor:
        if not padding or len(rows) <= self._size:
            return rows
        whole = len(rows) // self._size * self._size
        spread = F.pad(rows[:whole].view(-1, self._size), (0, padding)).view(-1)
        return torch.cat([spread, rows[whole:]]) if whole < len(rows) else spread

    def cut(self, chunk: Sequence[Tensor], rows: int) -> Iterator[tuple[Tensor, ...]]:
        """Batch by batch. To autograd they share nothing: writing to one does not concern
        another."""
        return zip(*map(self._cut, chunk, self._padding, [rows] * len(chunk)), strict=True)

    def _cut(self, tensor: Tensor, padding: int, rows: int) -> Sequence[Tensor]:
        if rows <= self._size:
            return (tensor,)
        if not padding:
            return tensor.unsafe_split(self._size)
        whole, rest = divmod(rows, self._size)
        sizes = [self._size, padding] * whole + [rest] * (rest > 0)
        return tensor.unsafe_split_with_sizes(sizes)[::2]


def _rows_between(row_bytes: int, size: int, alignment: int) -> int:
    """The fewest rows behind a batch so that the next one begins at a multiple of ``alignment``."""
    return next(
        padding for padding in range(alignment) if (size + padding) * row_bytes % alignment == 0
    )
