"""A task whose items are read from a file in the working folder, unpacked as they are asked for."""

import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import hasten

ROWS, WIDTH, PACKED = 64, 64, 512


def write_rows(folder: Path) -> None:
    """Each row in a block of its own."""
    values = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    blocks = [zlib.compress(row.tobytes()).ljust(PACKED, b"\0") for row in values]
    (folder / "rows.bin").write_bytes(b"".join(blocks))


class PackedRows(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with open("rows.bin", "rb") as file:
            file.seek(index * PACKED)
            packed = zlib.decompressobj().decompress(file.read(PACKED))
        return torch.tensor(np.frombuffer(packed, np.float32)), index % 4


def packed() -> hasten.Task:
    return hasten.Task(
        model=nn.Linear(WIDTH, 4),
        data=PackedRows(),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-6),
        batch_size=8,
    )
