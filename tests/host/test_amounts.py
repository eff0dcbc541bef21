"""Sizes and times as people write them."""

import pytest

from hasten.errors import HastenError
from hasten.host.amounts import parse_bytes, parse_duration, parse_some_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("5GB", 5_000_000_000),
        ("5 gb", 5_000_000_000),
        ("1.5KiB", 1536),
        ("2TB", 2 * 10**12),
        ("7B", 7),
    ],
)
def test_a_size_is_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("30d", 30 * 86_400)]
)
def test_a_time_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "5XB", "1e3", "nan", "5GB5", "٣GB "])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(HastenError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["0", "0GB", "0.0", "0.9B"])
def test_no_bytes_are_refused_where_there_have_to_be_some(text: str) -> None:
    with pytest.raises(HastenError, match=f"'{text}' is no memory at all"):
        parse_some_bytes(text)


def test_some_bytes_are_a_size() -> None:
    assert parse_some_bytes("5GB") == parse_bytes("5GB")


@pytest.mark.parametrize("text", ["30", "d", "-1d", "5y"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(HastenError, match="is not a time"):
        parse_duration(text)


def test_a_few_bytes_without_a_unit_were_meant_as_more() -> None:
    with pytest.raises(HastenError, match=r"'12' alone is 12 bytes, .* 12GB"):
        parse_some_bytes("12")
    assert parse_some_bytes("12B") == 12
    assert parse_some_bytes("4000000000") == 4 * 10**9
