"""Bit strings to tensors and back, against the row-wise way."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import row_wise
from hasten.data.encoders import bits, bits_to_tensor, tensor_to_bits, text_rows
from hasten.errors import HastenError

BITS = ["0110", "1000", "0110", "1111"]
VALUES = [[0, 1, 1, 0], [1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]]


@st.composite
def tables(draw: st.DrawFn) -> list[str]:
    width = draw(st.integers(0, 20))
    row = st.text(alphabet="01", min_size=width, max_size=width)
    return draw(st.lists(row, min_size=1, max_size=30))


@settings(deadline=None)
@given(table=tables(), piece=st.integers(1, 100))
def test_any_table_is_encoded_as_row_by_row_and_comes_back(table: list[str], piece: int) -> None:
    with patch.object(text_rows, "PIECE_CHARACTERS", piece):
        tensor = bits_to_tensor(table)
    expected = row_wise.bits_to_tensor(table)
    assert tensor.dtype == expected.dtype
    assert torch.equal(tensor, expected)
    with patch.object(bits, "PIECE_CHARACTERS", piece):
        assert tensor_to_bits(tensor) == row_wise.tensor_to_bits(tensor) == table


@pytest.mark.parametrize(
    "column",
    [
        BITS,
        tuple(BITS),
        np.array(BITS),
        np.array(BITS, dtype=object),
        np.array(BITS, dtype=np.bytes_),
        list(np.array(BITS)),
        [row.encode() for row in BITS],
        pd.Series(BITS, index=[3, 3, 1, 0]),
        pd.Series(BITS, dtype="string"),
    ],
    ids=lambda column: type(column).__name__,
)
def test_a_column_of_any_kind_is_taken(column: Any) -> None:
    assert bits_to_tensor(column).tolist() == VALUES


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.uint8, torch.bool])
def test_the_tensor_has_the_type_that_was_asked_for(dtype: torch.dtype) -> None:
    tensor = bits_to_tensor(BITS, dtype)
    assert tensor.dtype == dtype
    assert tensor.tolist() == VALUES
    assert tensor_to_bits(tensor) == BITS
    assert tensor_to_bits(tensor.t()) == ["0101", "1011", "1011", "0001"]


def test_no_rows_need_a_width() -> None:
    with pytest.raises(HastenError, match=r"no rows, so their width is unknown. Pass width="):
        bits_to_tensor([])
    assert bits_to_tensor([], width=8).shape == (0, 8)
    assert tensor_to_bits(torch.empty(0, 8)) == []
    assert tensor_to_bits(torch.empty(2, 0)) == ["", ""]


REFUSED: dict[str, tuple[Any, str]] = {
    "a short row": (["01", "01", "0"], "row 2: 1 characters, where 2 belong"),
    "another character": (["01", "0x"], "row 1: the character 'x' at 1 is neither"),
    "a blank": (["01", " 1"], "row 1: the character ' ' at 0"),
    "a newline": (["01", "0\n"], r"row 1: the character '\\n' at 1"),
    "another digit": (["01", "01", "21"], "row 2: the character '2' at 0"),
    "a digit of another script": (["01", "\u06601"], "row 1: the character '\u0660' at 0"),
    "a character of two units": (["01", "😀1"], "row 1: the character '😀' at 0"),
    "a question mark": (["?1"], r"row 0: the character '\?' at 0"),
    "a missing value": (pd.Series(["01", None]), "row 1: (None|nan) is no str"),
    "a number": (["01", 10], "row 1: 10 is no str"),
    "text among bytes": ([b"01", "01"], "row 1: '01' is no bytes"),
    "bytes that are no ASCII": ([b"01", b"0\xe9"], r"row 1: the bytes b'0\\xe9' are not ASCII"),
    "one string": ("0101", "one string, '0101', where a column of them belongs"),
    "a table of arrays": (np.array([["0", "1"]]), r"row 0: \['0', '1'\] is no str"),
}


@pytest.mark.parametrize(("column", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_column_of_bits_is_refused_with_its_row(column: Any, reason: str) -> None:
    with patch.object(text_rows, "PIECE_CHARACTERS", 3), pytest.raises(HastenError, match=reason):
        bits_to_tensor(column)


def test_rows_of_another_width_than_expected_are_refused() -> None:
    with pytest.raises(HastenError, match="row 0: 2 characters, where 3 belong"):
        bits_to_tensor(["01", "10"], width=3)


@pytest.mark.parametrize(
    ("value", "said"), [(0.5, "0.5"), (-1.0, "-1.0"), (2.0, "2.0"), (float("nan"), "nan")]
)
def test_a_value_that_is_no_bit_is_refused_with_its_place(value: float, said: str) -> None:
    tensor = torch.ones(3, 4)
    tensor[2, 1] = value
    with (
        patch.object(bits, "PIECE_CHARACTERS", 4),
        pytest.raises(HastenError, match=f"Row 2, bit 1 is {said}, neither 0 nor 1"),
    ):
        tensor_to_bits(tensor)
    with pytest.raises(HastenError, match=r"shape \(4,\) has no rows"):
        tensor_to_bits(torch.ones(4))
