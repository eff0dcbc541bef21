"""Small pieces of text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.records.measurement import Memory
from hasten.report.text import clock, duration, interval, number, peak_memory, printable, size


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py:make_task", "train.py:make_task"),
        ("träne.py:größe", "träne.py:größe"),
        ("\x1b[31mred\x1b[0m", "?[31mred?[0m"),
        ("two\nlines\r\n", "two?lines??"),
        ("\x07\x00\x9b", "???"),
        ("abc\u202egnp.py", "abc?gnp.py"),
        ("\ud800", "?"),
        ("", ""),
    ],
)
def test_what_would_drive_the_terminal_is_shown_as_a_question_mark(text: str, shown: str) -> None:
    assert printable(text) == shown


@settings(deadline=None)
@given(st.text())
def test_any_text_becomes_printable_and_keeps_its_length(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 us"),
        (0.000_05, "50 us"),
        (0.001, "1.0 ms"),
        (0.0123, "12.3 ms"),
        (1.0, "1 s"),
        (119.0, "119 s"),
        (120.0, "2.0 min"),
        (5400.0, "90.0 min"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10_239, "10.0 KiB"),
        (10_240, "10 KiB"),
        (300 << 20, "300 MiB"),
        (1 << 30, "1.0 GiB"),
        (141 << 30, "141.0 GiB"),
        (4 << 40, "4096.0 GiB"),
    ],
)
def test_a_size_has_the_unit_that_suits_it(count: int, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.693147, "0.6931"),
        (-12345.6, "-1.235e+04"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_number_of_any_size_is_a_few_characters(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0:00"), (59.9, "0:59"), (60, "1:00"), (3599, "59:59"), (3600, "1:00:00")],
)
def test_a_clock_has_hours_only_where_there_are_any(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


@pytest.mark.parametrize(
    ("memory", "shown"),
    [
        (Memory(), "not measured"),
        (Memory(host_bytes=1 << 20), "1.0 MiB of the process"),
        (Memory(host_bytes=1 << 20, device_allocated_bytes=0), "0 B on the device"),
    ],
)
def test_a_peak_of_memory_says_whose_it_is(memory: Memory, shown: str) -> None:
    assert peak_memory(memory) == shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1.4, 1.6, "1.400x to 1.600x"),
        (150.0, 160.0, "150.000x to 160.000x"),
        (0.02, 1.9, "0.020x to 1.900x"),
        (0.516, 91313865.443, "too wide to tell"),
        (0.0, 14352263.528, "too wide to tell"),
        (0.0, float("inf"), "too wide to tell"),
    ],
)
def test_an_interval_that_tells_nothing_has_no_figures(low: float, high: float, shown: str) -> None:
    assert interval(low, high, 3) == shown
