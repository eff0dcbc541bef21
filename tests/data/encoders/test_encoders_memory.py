"""What encoders take beside the tensor they make does not grow with the table.

tracemalloc sees what Python and numpy allocate; the tensors are torch's, and not in it.
"""

import tracemalloc
from collections.abc import Callable

import pytest

from hasten.data.encoders import NGrams, Tokenizer, bits_to_tensor

MB = 1_000_000


def peak_of(encode: Callable[[int], object], rows: int) -> int:
    tracemalloc.start()
    try:
        encode(rows)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ENCODERS: dict[str, Callable[[int], object]] = {
    "bits": lambda rows: bits_to_tensor(["01" * 500] * rows),
    "n-grams": lambda rows: NGrams(2, "an").encode(["hannah" * 100] * rows),
    "tokens": lambda rows: Tokenizer("ACGT").encode(["ACGT" * 200] * rows + ["A"]),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_memory_beside_the_tensor_is_some_mb_whatever_the_rows(name: str) -> None:
    encode = ENCODERS[name]
    encode(1)  # what is made once
    some, many = (peak_of(encode, rows) for rows in (1_500, 6_000))
    assert many < 15 * MB
    assert many - some < 4_500 * 32  # a length and a few pointers for each row


def test_the_measure_sees_a_whole_table() -> None:
    assert peak_of(lambda rows: "".join(["01" * 500] * rows).encode(), 6_000) > 10 * MB
