"""Text to multi-hot n-grams and back, against the row-wise way."""

import string
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import row_wise
from hasten.data.encoders import NGrams, text_rows
from hasten.errors import HastenError
from hasten.gallery.bloom.data import make_persons

# Known and unknown letters, what joins or splits lines, NUL, 1 to 4 bytes of UTF-8, half a pair.
TEXT = st.text(alphabet="abA_ \n\r\0\x85éßλ\u0301字😀\ud800", max_size=8)
ALPHABETS = st.sampled_from(["a", "ab", "bA", "aé", "éλ", "\0a", "\na", "😀a", "\ud800λ"])


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12),
    n=st.integers(1, 3),
    alphabet=ALPHABETS,
    padding=st.sampled_from(["", "_", "字"]),
    piece=st.integers(1, 60),
)
def test_any_text_is_encoded_as_row_by_row(
    rows: list[tuple[str, str]], n: int, alphabet: str, padding: str, piece: int
) -> None:
    ngrams = NGrams(n, alphabet, padding=padding)
    labels = row_wise.all_ngrams(n, alphabet + padding)
    assert ngrams.labels == labels
    assert len(ngrams) == len(labels)
    with patch.object(text_rows, "PIECE_CHARACTERS", piece):
        encoded = ngrams.encode(*map(list, zip(*rows, strict=True)))
    assert torch.equal(encoded, row_wise.ngrams_to_tensor(rows, n, labels, padding))
    assert ngrams.decode(encoded) == row_wise.decode_ngrams(encoded, labels)


@settings(deadline=None)
@given(
    rows=st.integers(0, 5),
    seed=st.integers(0, 9),
    threshold=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0]),
)
def test_any_probabilities_are_decoded_as_row_by_row(
    rows: int, seed: int, threshold: float
) -> None:
    ngrams = NGrams(2, "abc")
    random = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(rows, 9, generator=random)
    probabilities[torch.rand(rows, 9, generator=random) < 0.1] = threshold
    probabilities[torch.rand(rows, 9, generator=random) < 0.1] = float("nan")
    expected = row_wise.decode_ngrams(probabilities, ngrams.labels, threshold)
    assert ngrams.decode(probabilities, threshold) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.bool])
def test_the_tensor_has_the_type_that_was_asked_for(dtype: torch.dtype) -> None:
    ngrams = NGrams(2, "ab")
    encoded = ngrams.encode(["ab", "", "bba"], dtype=dtype)
    assert encoded.dtype == dtype
    assert encoded.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]
    assert ngrams.decode(encoded) == [["ab"], [], ["ba", "bb"]]


def test_probabilities_with_gradients_and_in_any_layout_are_decoded() -> None:
    ngrams = NGrams(1, "abc")
    probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.6]], requires_grad=True)
    assert ngrams.decode(probabilities.t()) == [["a", "c"], ["b", "c"]]


def test_the_labels_of_the_bloom_workload_are_these() -> None:
    persons = make_persons(300, seed=7)
    ngrams = NGrams()
    labels = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]
    assert ngrams.labels == labels
    rows = list(zip(persons.given_name, persons.surname, strict=True))
    encoded = ngrams.encode(persons.given_name, persons.surname)
    assert torch.equal(encoded, row_wise.ngrams_to_tensor(rows, 2, labels))
    assert ngrams.decode(ngrams.encode(["ab"], ["cd"])) == [["ab", "cd"]]


def test_case_is_kept_and_marks_apart_from_their_letter_are_characters() -> None:
    ngrams = NGrams(2, "eéE")
    assert ngrams.decode(ngrams.encode(["eé", "Ee", "ee\u0301"])) == [["eé"], ["Ee"], ["ee"]]


def test_padding_tells_how_a_field_begins_and_ends() -> None:
    ngrams = NGrams(2, "ab", padding="_")
    assert ngrams.decode(ngrams.encode(["ab", "", "x"])) == [["ab", "b_", "_a"], ["__"], []]
    assert ngrams.decode(NGrams(2, "ab", padding="_").encode(["a"], ["b"])) == [
        ["a_", "b_", "_a", "_b"]
    ]


@pytest.mark.parametrize("size", [255, 256, 257, 300])
def test_an_alphabet_of_more_letters_than_a_byte_has_works(size: int) -> None:
    alphabet = "".join(map(chr, range(0x100, 0x100 + size)))
    ngrams = NGrams(1, alphabet)
    assert ngrams.decode(ngrams.encode([alphabet[-1] + "a", "a", alphabet[254]])) == [
        [alphabet[-1]],
        [],
        [alphabet[254]],
    ]
    narrow = NGrams(1, "".join(map(chr, range(size))))
    assert narrow.encode([narrow.alphabet, "\u0fff"]).sum(1).tolist() == [size, 0]


def test_columns_of_numpy_and_pandas_are_taken() -> None:
    fields: list[Any] = [np.array(["ab", "b"]), pd.Series(["ba", ""], index=[7, 7])]
    fields.append(np.array([b"aa", b""]))
    ngrams = NGrams(2, "ab")
    assert ngrams.decode(ngrams.encode(*fields)) == [["aa", "ab", "ba"], []]


def test_no_rows_are_an_empty_tensor() -> None:
    ngrams = NGrams(2, "ab")
    assert ngrams.encode([]).shape == (0, 4)
    assert ngrams.decode(torch.empty(0, 4)) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"n": 0}, "n=0 characters make no n-gram"),
        ({"alphabet": ""}, "The alphabet is empty"),
        ({"alphabet": "aba"}, "The alphabet 'aba' has 'a' twice"),
        ({"padding": "__"}, "padding='__' is not one character"),
        ({"padding": "a"}, "padding='a' is not one character outside the alphabet"),
        ({"n": 6}, "n=6 and the 26 characters .* make more than 16,777,216 labels"),
        ({"n": 10**9}, "n=1000000000 and the 26"),
    ],
)
def test_a_vocabulary_that_cannot_be_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(HastenError, match=reason):
        NGrams(**arguments)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([], r"Fields of \[\] rows"),
        ([["a"], ["a", "b"]], r"Fields of \[1, 2\] rows make no table"),
        ([["a"], [None]], "field 1, row 0: None is no str"),
        (["ab"], "field 0: one string, 'ab'"),
    ],
)
def test_fields_that_make_no_table_are_refused(fields: list[Any], reason: str) -> None:
    with pytest.raises(HastenError, match=reason):
        NGrams().encode(*fields)


@pytest.mark.parametrize("shape", [(676,), (2, 675), (1, 1, 676)])
def test_probabilities_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(HastenError, match=r"of shape .* are not of rows and 676 labels"):
        NGrams().decode(torch.zeros(shape))
