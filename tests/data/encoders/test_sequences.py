"""Sequences to padded tokens and back, against the row-wise way."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import row_wise
from hasten.data.encoders import Tokenizer, text_rows
from hasten.errors import HastenError

TEXT = st.text(alphabet="ACGTacN- \n\0éλ\u0301😀\ud800", max_size=9)
ALPHABETS = st.sampled_from(["ACGT", "A", "TGé", "\0A\n", "λA", "😀A", "\ud800C"])


@settings(deadline=None)
@given(
    sequences=st.lists(TEXT, min_size=1, max_size=12),
    alphabet=ALPHABETS,
    length=st.none() | st.integers(0, 12),
    ids=st.sampled_from([(0, 1, 9), (9, 0, 10), (1, 250, 0), (500, 1, 300), (0, 256, 255)]),
    piece=st.integers(1, 40),
)
def test_any_sequences_are_encoded_as_row_by_row_and_come_back(
    sequences: list[str],
    alphabet: str,
    length: int | None,
    ids: tuple[int, int, int],
    piece: int,
) -> None:
    pad_id, first_id, unknown_id = ids
    tokenizer = Tokenizer(alphabet, pad_id=pad_id, first_id=first_id, unknown_id=unknown_id)
    with patch.object(text_rows, "PIECE_CHARACTERS", piece):
        tokens = tokenizer.encode(sequences, length, truncate=True)
    table = {character: first_id + i for i, character in enumerate(alphabet)}
    to = max(map(len, sequences)) if length is None else length
    expected, lengths = row_wise.tokenize(sequences, table, to, pad_id, unknown_id)
    assert tokens.ids.dtype == torch.int64
    assert torch.equal(tokens.ids, expected)
    assert torch.equal(tokens.lengths, lengths)
    assert torch.equal(tokens.mask, expected != pad_id)
    back = {number: character for character, number in table.items()} | {unknown_id: "?"}
    assert tokenizer.decode(tokens.ids) == row_wise.detokenize(expected, back, pad_id)
    cut = ["".join(c if c in alphabet else "?" for c in row[:to]) for row in sequences]
    assert tokenizer.decode(tokens.ids) == cut


def test_tokens_are_padded_behind() -> None:
    tokens = Tokenizer("ACGT", unknown_id=5).encode(["ACGT", "GN", ""])
    assert tokens.ids.tolist() == [[1, 2, 3, 4], [3, 5, 0, 0], [0, 0, 0, 0]]
    assert tokens.lengths.tolist() == [4, 2, 0]
    assert tokens.mask.tolist() == [[True] * 4, [True, True, False, False], [False] * 4]


def test_a_character_that_rows_are_filled_up_with_may_be_in_them_too() -> None:
    tokenizer = Tokenizer("AC", unknown_id=3)
    assert tokenizer.encode(["A\0C", "\0", "\1A"], 4).ids.tolist() == [
        [1, 3, 2, 0],
        [3, 0, 0, 0],
        [3, 1, 0, 0],
    ]
    with pytest.raises(HastenError, match="row 1"):
        Tokenizer("AC").encode(["AC", "A\0"])


def test_columns_of_numpy_and_pandas_are_taken() -> None:
    columns: list[Any] = [np.array(["AC", "G"]), np.array([b"AC", b"G"]), pd.Series(["AC", "G"])]
    for column in columns:
        assert Tokenizer("ACGT").encode(column).ids.tolist() == [[1, 2], [3, 0]]


def test_no_rows_are_an_empty_tensor() -> None:
    tokenizer = Tokenizer("ACGT")
    assert tokenizer.encode([]).ids.shape == (0, 0)
    assert tokenizer.encode([], 7).mask.shape == (0, 7)
    assert tokenizer.decode(torch.empty(0, 7, dtype=torch.int64)) == []
    assert tokenizer.decode(torch.empty(2, 0, dtype=torch.int64)) == ["", ""]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_the_tensor_has_the_type_that_was_asked_for(dtype: torch.dtype) -> None:
    ids = Tokenizer("ACGT").encode(["ACG", "T"], dtype=dtype).ids
    assert ids.dtype == dtype
    assert ids.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert Tokenizer("ACGT").decode(ids.t().contiguous().t()) == ["ACG", "T"]


@pytest.mark.parametrize(
    ("dtype", "first_id"), [(torch.int8, 124), (torch.uint8, 252), (torch.float32, 1)]
)
def test_a_type_that_does_not_hold_the_ids_is_refused(dtype: torch.dtype, first_id: int) -> None:
    with pytest.raises(HastenError, match=f"dtype={dtype} does not hold ids up to"):
        Tokenizer("ACGTN", first_id=first_id).encode(["A"], dtype=dtype)


def test_a_type_holds_its_highest_id() -> None:
    assert Tokenizer("A", first_id=255).encode(["A"], dtype=torch.uint8).ids.tolist() == [[255]]


def test_the_first_id_may_be_0_where_padding_is_another() -> None:
    tokenizer = Tokenizer("AC", pad_id=2, first_id=0)
    assert tokenizer.encode(["CA", "A"]).ids.tolist() == [[1, 0], [0, 2]]
    with pytest.raises(HastenError, match="Row 0 has -1, the id of no token"):
        tokenizer.decode(torch.tensor([[-1, 1]]))


def test_an_embedding_of_the_size_takes_every_id() -> None:
    assert Tokenizer("ACGT").size == 5
    assert Tokenizer("ACGT", unknown_id=5).size == 6
    assert Tokenizer("ACGT", pad_id=9).size == 10


def test_an_unknown_character_without_an_id_is_refused_with_its_row() -> None:
    sequences = ["ACGT"] * 5 + ["AC", "GaNT"]
    with (
        patch.object(text_rows, "PIECE_CHARACTERS", 8),
        pytest.raises(HastenError, match="row 6: 'a' is not in the alphabet 'ACGT'"),
    ):
        Tokenizer("ACGT").encode(sequences)


def test_a_row_that_is_too_long_is_cut_only_if_asked() -> None:
    tokenizer = Tokenizer("ACGT")
    with pytest.raises(HastenError, match="row 1: 3 characters, more than length=2"):
        tokenizer.encode(["AC", "ACG"], 2)
    tokens = tokenizer.encode(["AC", "GTA"], 2, truncate=True)
    assert tokens.ids.tolist() == [[1, 2], [3, 4]]
    assert tokens.lengths.tolist() == [2, 2]


def test_a_row_ends_at_its_first_padding() -> None:
    ids = torch.tensor([[1, 0, 2], [0, 99, 1]])
    assert Tokenizer("AC").decode(ids) == ["A", ""]


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([[1, 1], [2, 3]], "Row 1 has 3, the id of no token"),
        ([[1, 99]], "Row 0 has 99, the id of no token"),
        ([[-1, 1]], "Row 0 has -1, the id of no token"),
        ([1, 2], r"Ids of shape \(2,\)"),
        ([[1.0]], "type torch.float32"),
    ],
)
def test_ids_that_are_no_tokens_are_refused(ids: Any, reason: str) -> None:
    with pytest.raises(HastenError, match=reason):
        Tokenizer("AC").decode(torch.tensor(ids))


def test_a_length_below_zero_is_refused() -> None:
    with pytest.raises(HastenError, match="length=-1 is no length"):
        Tokenizer("ACGT").encode(["A"], -1, truncate=True)


@pytest.mark.parametrize(
    "ids",
    [
        {"pad_id": 1},
        {"pad_id": -1},
        {"unknown_id": 4},
        {"unknown_id": 0},
        {"first_id": -9},
        {"pad_id": 2**31},
    ],
)
def test_ids_that_are_given_twice_or_negative_are_refused(ids: dict[str, int]) -> None:
    with pytest.raises(HastenError, match="do not give each token an id of its own"):
        Tokenizer("ACGT", **ids)
