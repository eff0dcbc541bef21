"""Memory that a forked process fills and this one keeps: rows of columns, one after the other."""

import dataclasses
import math
import mmap
import os
import tempfile
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

ALIGNMENT = 64


@dataclasses.dataclass(frozen=True)
class Layout:
    """What every item has: the form and types of a batch of it."""

    rows: int
    shapes: tuple[tuple[int, ...], ...]
    """Of each leaf, without the rows."""
    dtypes: tuple[torch.dtype, ...]
    sample: Any
    """A batch with the number of each leaf in its place."""

    @property
    def form(self) -> pytree.TreeSpec | None:
        """None for a list of tensors, which is built faster."""
        if type(self.sample) is list and self.sample == [*range(len(self.shapes))]:
            return None
        return pytree.tree_structure(self.sample)

    @property
    def row_bytes(self) -> list[int]:
        return [
            math.prod(shape) * dtype.itemsize
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        return sum(self._aligned(each * self.rows) for each in [*self.row_bytes, 1])

    @staticmethod
    def _aligned(size: int) -> int:
        return -(-size // ALIGNMENT) * ALIGNMENT


class Room:
    """A file that is in memory only, until its mapping is let go."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("columns")
        else:
            with tempfile.TemporaryFile() as file:
                self._descriptor = os.dup(file.fileno())

    def close(self) -> None:
        """What has been mapped stays."""
        os.close(self._descriptor)

    def grow(self, layout: Layout) -> None:
        os.truncate(self._descriptor, layout.nbytes)

    def columns(self, layout: Layout) -> tuple[tuple[Tensor, ...], Tensor]:
        """A tensor for each leaf, and which rows are absent."""
        memory = torch.frombuffer(mmap.mmap(self._descriptor, layout.nbytes), dtype=torch.uint8)
        found, start = [], 0
        shapes, dtypes = [*layout.shapes, ()], [*layout.dtypes, torch.bool]
        for shape, dtype in zip(shapes, dtypes, strict=True):
            size = layout.rows * math.prod(shape) * dtype.itemsize
            column = memory[start : start + size].view(dtype).view(layout.rows, *shape)
            found.append(column)
            start += layout._aligned(size)
        *columns, absent = found
        return tuple(columns), absent
