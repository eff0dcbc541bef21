"""Text to the n-grams that occur in it, as a multi-hot tensor, and back."""

import math
import string
from functools import cached_property
from itertools import pairwise, product

import numpy as np
import torch
from torch import Tensor

from hasten.data.encoders.characters import CharacterTable, strangers_to
from hasten.data.encoders.text_rows import Texts, lengths_of, pieces, rows_of, shown
from hasten.errors import HastenError

MOST_LABELS = 1 << 24
"""Columns of a tensor. A single row of so many takes 64 MB."""


class NGrams:
    """All n-grams over an alphabet, as labels: with n=2 and 'ab' these are aa, ab, ba, bb.

    A character is a Unicode code point, and case is kept. Where a character is not in the alphabet,
    the n-grams that it is part of are no labels, and nothing else is said of it.

    With ``padding``, one character outside the alphabet, n-1 of it are set before and behind each
    field, so that labels tell how a field begins and ends. The labels are then all n-grams over the
    alphabet and the padding, which comes last.
    """

    def __init__(
        self, n: int = 2, alphabet: str = string.ascii_lowercase, *, padding: str = ""
    ) -> None:
        if n < 1:
            raise HastenError(f"n={n} characters make no n-gram.", fix="Use 1 or more.")
        if len(padding) > 1 or (padding and padding in alphabet):
            raise HastenError(
                f"padding={padding!r} is not one character outside the alphabet.",
                fix="Choose one such, as '_', or '' for none.",
            )
        self.n = n
        self.alphabet = alphabet
        self.padding = padding
        self._characters = alphabet + padding
        self._table = CharacterTable(self._characters, first=0, unknown=len(self._characters))
        if n * math.log2(len(self._characters)) > math.log2(MOST_LABELS):
            raise HastenError(
                f"n={n} and the {len(self._characters)} characters {shown(self._characters)} make "
                f"more than {MOST_LABELS:,} labels.",
                fix="Use a smaller n or fewer characters.",
            )

    def __len__(self) -> int:
        return int(len(self._characters) ** self.n)

    def __repr__(self) -> str:
        return f"NGrams({self.n}, {self.alphabet!r}, padding={self.padding!r})"

    @cached_property
    def labels(self) -> list[str]:
        """The n-gram of each column."""
        return ["".join(each) for each in product(self._characters, repeat=self.n)]

    def encode(self, *fields: Texts, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor (rows, labels): 1 where the n-gram occurs in any field of the row, else 0.

        No n-gram crosses from one field or row to another. Beside the tensor it takes about 10 MB
        and 30 bytes a row; more where one text is longer than ``PIECE_CHARACTERS``.
        """
        columns = [rows_of(field, f"field {number}") for number, field in enumerate(fields)]
        sizes = [len(column) for column in columns]
        if len(set(sizes)) != 1:
            raise HastenError(
                f"Fields of {sizes} rows make no table.",
                fix="Give one field or several, all with the same number of rows.",
            )
        multi_hot = torch.zeros(sizes[0], len(self), dtype=dtype)
        for column in columns:
            for piece in pieces(lengths_of(column)):
                self._mark(multi_hot[piece].view(-1), column[piece])
        return multi_hot

    def _mark(self, flat: Tensor, rows: list[str]) -> None:
        """Set the labels of some neighbouring rows, whose part of the tensor is ``flat``."""
        margin = self.padding * (self.n - 1)
        text = margin + f"{margin}{self._gap}{margin}".join(rows) + margin
        numbers = self._table.numbers(text)
        places = max(len(text) - self.n + 1, 0)
        label = np.zeros(places, np.int64)
        is_label = np.ones(places, np.bool_)
        for offset in range(self.n):
            part = numbers[offset : offset + places]
            label *= len(self._characters)
            label += part
            is_label &= part < self._table.unknown
        row = np.repeat(np.arange(len(rows)), lengths_of(rows) + 2 * len(margin) + 1)[:places]
        marked = (row[is_label] * len(self)) + label[is_label]
        flat.index_fill_(0, torch.from_numpy(marked), 1)

    @cached_property
    def _gap(self) -> str:
        """A character that is in no label, to stand between rows."""
        return next(strangers_to(self._characters))

    def decode(self, probabilities: Tensor, threshold: float = 0.5) -> list[list[str]]:
        """The n-grams of each row whose probability is over the threshold, in the labels' order.

        ``probabilities`` (rows, labels) may be of any type and on any device: they are compared
        there, with the threshold in their type, and one byte for each comes to the host, in one
        copy. NaN is over no threshold.
        """
        if probabilities.ndim != 2 or probabilities.shape[1] != len(self):
            raise HastenError(
                f"Probabilities of shape {tuple(probabilities.shape)} are not of rows and "
                f"{len(self)} labels.",
                fix="Give a batch, with one column for each label.",
            )
        is_over = (probabilities > threshold).cpu().numpy()
        found = np.flatnonzero(is_over)
        labels = self.labels
        texts = [labels[column] for column in (found % len(self)).tolist()]
        ends = np.searchsorted(found, np.arange(len(is_over) + 1) * len(self))
        return [texts[start:end] for start, end in pairwise(ends.tolist())]
