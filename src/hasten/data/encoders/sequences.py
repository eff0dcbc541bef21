"""Sequences of characters, such as DNA, to padded tensors of tokens, and back."""

from itertools import islice, pairwise
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hasten.data.encoders.characters import CharacterTable, code_points, strangers_to, text_of
from hasten.data.encoders.text_rows import Lengths, Texts, lengths_of, pieces, rows_of, shown
from hasten.errors import HastenError

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)
HIGHEST_ID = 2**31 - 1
NO_CHARACTER = 0xFFFFFFFF
"""Beyond all code points."""


class Tokens(NamedTuple):
    """What a ``Tokenizer`` makes of some texts."""

    ids: Tensor
    """(rows, length)."""
    lengths: Tensor
    """Of each row without its padding, int64."""

    @property
    def mask(self) -> Tensor:
        """(rows, length), true where there is a token and not padding."""
        places = torch.arange(self.ids.shape[1], device=self.ids.device)
        return places < self.lengths.unsqueeze(1)


class Tokenizer:
    """One token for each character: ``first_id`` for the first of ``alphabet``, and so on.

    A character is a Unicode code point, and case is kept. One that is not in the alphabet becomes
    ``unknown_id``; where that is None, it is refused. Behind a row's end stands ``pad_id``.
    """

    def __init__(
        self, alphabet: str, *, pad_id: int = 0, first_id: int = 1, unknown_id: int | None = None
    ) -> None:
        self.alphabet = alphabet
        self.pad_id = pad_id
        self.first_id = first_id
        self.unknown_id = unknown_id
        ids = [pad_id, *range(first_id, first_id + len(alphabet))]
        ids += [] if unknown_id is None else [unknown_id]
        if len(set(ids)) < len(ids) or min(ids) < 0 or max(ids) >= HIGHEST_ID:
            raise HastenError(
                f"pad_id={pad_id}, first_id={first_id} and unknown_id={unknown_id} for an alphabet "
                f"of {len(alphabet)} do not give each token an id of its own, from 0 to 2**31 - 2.",
                fix="Choose others.",
            )
        self.size = max(ids) + 1
        """As many rows as an embedding needs."""
        # A number that is no id marks what is to be refused.
        unknown = self.size if unknown_id is None else unknown_id
        self._filling, self._stranger = islice(strangers_to(alphabet), 2)
        self._table = CharacterTable(
            alphabet, first=first_id, unknown=unknown, beside={self._filling: pad_id}
        )

    def encode(
        self,
        sequences: Texts,
        length: int | None = None,
        *,
        truncate: bool = False,
        dtype: torch.dtype = torch.int64,
    ) -> Tokens:
        """Tokens (rows, length), filled up behind; by default as long as the longest row.

        A row longer than ``length`` is refused, or with ``truncate`` cut off there: its first
        ``length`` characters stay. Beside the tensor it takes some MB and about 30 bytes a row, and
        where rows are cut, the text once more.
        """
        self._check_type(dtype)
        if length is not None and length < 0:
            raise HastenError(f"length={length} is no length.", fix="Use 0 or more, or None.")
        rows = rows_of(sequences, "sequences")
        lengths = lengths_of(rows)
        longest = int(lengths.max(initial=0))
        if length is None:
            length = longest
        elif longest > length:
            if not truncate:
                _refuse_length(lengths, length)
            rows = [row[:length] for row in rows]
            lengths = np.minimum(lengths, length)
        ids = torch.empty(len(rows), length, dtype=dtype)
        for piece in pieces(np.full_like(lengths, length)):
            some = rows[piece]
            numbers = self._table.numbers(self._filled(some, lengths[piece], length))
            if self.unknown_id is None and (numbers == self._table.unknown).any():
                self._refuse_unknown(rows, piece)
            ids.numpy()[piece] = numbers.reshape(len(some), length)
        return Tokens(ids, torch.from_numpy(lengths))

    def _filled(self, rows: list[str], lengths: Lengths, length: int) -> str:
        """The text of neighbouring rows, filled up behind each."""
        text = "".join([row.ljust(length, self._filling) for row in rows])
        if text.count(self._filling) == len(text) - int(lengths.sum()):
            return text
        # It is in the rows too, as a character that nobody knows.
        known = [row.replace(self._filling, self._stranger) for row in rows]
        return "".join([row.ljust(length, self._filling) for row in known])

    def decode(self, ids: Tensor, *, unknown: str = "?") -> list[str]:
        """The text of each row of (rows, length), which ends at its first ``pad_id``.

        ``unknown`` stands for ``unknown_id``. The ids may be on any device and come to the host in
        one copy; there it takes about 22 bytes for each.
        """
        if ids.ndim != 2 or ids.is_floating_point() or len(unknown) != 1:
            raise HastenError(
                f"Ids of shape {tuple(ids.shape)} and type {ids.dtype} with {unknown!r} for the "
                "unknown cannot be read.",
                fix="Give whole numbers (rows, length), and one character.",
            )
        host = ids.cpu().numpy()
        is_token = np.logical_and.accumulate(host != self.pad_id, axis=1)
        tokens = host[is_token]
        codes = self._codes(unknown).take(tokens, mode="clip")
        is_none = (codes == NO_CHARACTER) | (tokens < 0) | (tokens >= self.size)
        if is_none.any():
            place = int(np.argmax(is_none))
            raise HastenError(
                f"Row {np.nonzero(is_token)[0][place]} has {tokens[place]}, the id of no token.",
                fix=f"Keep to ids that {self!r} gives.",
            )
        text = text_of(codes)
        ends = np.cumsum(is_token.sum(axis=1)).tolist()
        return [text[start:end] for start, end in pairwise([0, *ends])]

    def _codes(self, unknown: str) -> npt.NDArray[np.uint32]:
        """The code point of each id."""
        codes = np.full(self.size, NO_CHARACTER, np.uint32)
        codes[self.first_id : self.first_id + len(self.alphabet)] = code_points(self.alphabet)
        if self.unknown_id is not None:
            codes[self.unknown_id] = ord(unknown)
        return codes

    def __repr__(self) -> str:
        return (
            f"Tokenizer({self.alphabet!r}, pad_id={self.pad_id}, first_id={self.first_id}, "
            f"unknown_id={self.unknown_id})"
        )

    def _check_type(self, dtype: torch.dtype) -> None:
        if dtype not in INTEGERS or self.size - 1 > torch.iinfo(dtype).max:
            raise HastenError(
                f"dtype={dtype} does not hold ids up to {self.size - 1}.",
                fix="Use torch.int64, or a smaller integer type that does.",
            )

    def _refuse_unknown(self, rows: list[str], piece: slice) -> NoReturn:
        known = set(self.alphabet)
        row, character = next(
            (row, character)
            for row in range(piece.start, piece.stop)
            for character in rows[row]
            if character not in known
        )
        raise HastenError(
            f"sequences, row {row}: {character!r} is not in the alphabet {shown(self.alphabet)}.",
            fix="Add it to the alphabet, or give unknown characters an id by unknown_id=.",
        )


def _refuse_length(lengths: Lengths, length: int) -> NoReturn:
    row = int(np.argmax(lengths > length))
    raise HastenError(
        f"sequences, row {row}: {lengths[row]} characters, more than length={length}.",
        fix="Use a greater length, or truncate=True to cut the rows off there.",
    )
