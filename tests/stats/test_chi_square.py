"""Against tabulated values."""

import pytest

from hasten.stats.chi_square import quantile


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [(0.95, 1, 3.841), (0.99, 3, 11.345), (0.995, 7, 20.278), (0.005, 15, 4.601), (0.5, 2, 1.386)],
)
def test_quantiles_are_those_of_the_tables(probability: float, degrees: int, value: float) -> None:
    assert quantile(probability, degrees) == pytest.approx(value, abs=6e-4)


def test_what_has_no_quantile_is_refused() -> None:
    for probability, degrees in ((0.0, 3), (1.0, 3), (0.5, 0)):
        with pytest.raises(ValueError, match="no value"):
            quantile(probability, degrees)
