"""How often something is done."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.errors import HastenError
from hasten.train.every import Every


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("500", Every(500, "step")),
        ("1 step", Every(1, "step")),
        ("500 steps", Every(500, "step")),
        ("500steps", Every(500, "step")),
        ("2 epochs", Every(2, "epoch")),
        ("1epoch", Every(1, "epoch")),
        ("  7  epoch ", Every(7, "epoch")),
    ],
)
def test_a_number_of_steps_or_epochs_is_read(text: str, every: Every) -> None:
    assert Every.parse(text) == every


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0 steps",
        "-5",
        "1.5 epochs",
        "two",
        "5 minutes",
        "5 5",
        "\u0665",
        "steps",
        "9" * 5000,
    ],
)
def test_anything_else_is_refused_with_what_may_stand_there(text: str) -> None:
    with pytest.raises(HastenError, match="such as 500") as caught:
        Every.parse(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize(("count", "unit"), [(0, "step"), (-1, "epoch"), (1, "hour")])
def test_an_interval_made_by_hand_is_checked_too(count: int, unit: Any) -> None:
    with pytest.raises(HastenError, match="is not how often"):
        Every(count, unit)


@given(st.integers(1, 10**15 - 1), st.sampled_from(["step", "epoch"]))
def test_what_it_says_of_itself_can_be_read_again(count: int, unit: Any) -> None:
    every = Every(count, unit)
    assert Every.parse(str(every)) == every
