"""Bit strings, such as '0110', to tensors of zeros and ones, and back."""

from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from hasten.data.encoders.text_rows import (
    PIECE_CHARACTERS,
    Lengths,
    Texts,
    lengths_of,
    pieces,
    rows_of,
)
from hasten.errors import HastenError


def bits_to_tensor(
    bits: Texts, dtype: torch.dtype = torch.float32, *, width: int | None = None
) -> Tensor:
    """A tensor (rows, width) of zeros and ones, one row for each bit string.

    All must have ``width`` characters; by default as many as the first has, so that no rows at all
    need it. Every character is checked. Beside the tensor it takes some MB, and about 30 bytes a
    row.
    """
    rows = rows_of(bits, "bits")
    if width is None:
        if not rows:
            raise HastenError("bits: no rows, so their width is unknown.", fix="Pass width=.")
        width = len(rows[0])
    lengths = lengths_of(rows)
    _check_widths(lengths, width)
    tensor = torch.empty(len(rows), width, dtype=dtype)
    for piece in pieces(lengths):
        # One byte for each character, a '?' for one that has no byte: it is refused like any other.
        text = "".join(rows[piece]).encode("latin-1", "replace")
        digits = np.frombuffer(text, np.uint8) ^ ord("0")
        if digits.max(initial=0) > 1:
            _refuse(rows, piece.start * width + int(np.argmax(digits > 1)), width)
        part = tensor[piece]
        part.copy_(torch.from_numpy(digits).view(part.shape))
    return tensor


def tensor_to_bits(tensor: Tensor) -> list[str]:
    """The bit strings of a tensor (rows, width) whose values are all 0 or 1, of any type, anywhere.

    From another device it comes to the host as it is, in one copy. Beside the strings it takes some
    MB.
    """
    if tensor.ndim != 2:
        raise HastenError(
            f"A tensor of shape {tuple(tensor.shape)} has no rows of bits.",
            fix="Give it two dimensions: rows and bits.",
        )
    width = tensor.shape[1]
    host = tensor.detach().cpu()
    strings: list[str] = []
    for rows in torch.split(host, max(PIECE_CHARACTERS // max(width, 1), 1)):
        is_set = rows != 0
        is_other = is_set ^ (rows == 1)
        # 0 and 1 as they are, 2 for all else.
        digits = (is_set.view(torch.uint8) + is_other.view(torch.uint8)).numpy()
        if digits.max(initial=0) > 1:
            row, column = np.argwhere(digits > 1)[0].tolist()
            raise HastenError(
                f"Row {len(strings) + row}, bit {column} is {rows[row, column].item()}, neither 0 "
                "nor 1.",
                fix="Make bits of probabilities first, such as by `probabilities > 0.5`.",
            )
        text = (digits + ord("0")).tobytes().decode("ascii")
        strings += [text[row * width : (row + 1) * width] for row in range(len(rows))]
    return strings


def _check_widths(lengths: Lengths, width: int) -> None:
    other = lengths != width
    if other.any():
        row = int(np.argmax(other))
        raise HastenError(
            f"bits, row {row}: {lengths[row]} characters, where {width} belong.",
            fix="Mend or leave out the rows of another width.",
        )


def _refuse(rows: list[str], place: int, width: int) -> NoReturn:
    row, column = divmod(place, width)
    raise HastenError(
        f"bits, row {row}: the character {rows[row][column]!r} at {column} is neither '0' nor '1'.",
        fix="Keep to these two.",
    )
