"""Student's t against the printed tables."""

from statistics import NormalDist

import pytest

from hasten.stats.student import critical_value


@pytest.mark.parametrize(
    ("confidence", "degrees", "value"),
    [
        (0.99, 1, 63.657),
        (0.99, 2, 9.925),
        (0.99, 3, 5.841),
        (0.99, 6, 3.707),
        (0.99, 19, 2.861),
        (0.99, 120, 2.617),
        (0.95, 1, 12.706),
        (0.95, 5, 2.571),
        (0.95, 30, 2.042),
        (0.999, 10, 4.587),
        (0.50, 4, 0.741),
    ],
)
def test_the_values_are_those_of_the_tables(confidence: float, degrees: int, value: float) -> None:
    assert critical_value(confidence, degrees) == pytest.approx(value, abs=6e-4)


def test_with_many_degrees_it_is_the_normal_distribution() -> None:
    normal = NormalDist().inv_cdf(0.995)
    assert normal < critical_value(0.99, 2000) == pytest.approx(normal, rel=2e-3)


@pytest.mark.parametrize(("confidence", "degrees"), [(0.0, 3), (1.0, 3), (0.99, 0), (1.2, 3)])
def test_what_has_no_value_is_refused(confidence: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="no value"):
        critical_value(confidence, degrees)
