"""What is a target, when is it reached, and how much sooner: with made-up courses."""

import math
import random

import pytest

from hasten.stats.paired import Interval
from hasten.stats.target import CHECKPOINTS, LATE, WINDOW, has_fallen, reached, sooner, target_of

EIGHT = Interval(8.0, 7.8, 8.2)
LOSS = "training loss"


def course(*losses: float) -> list[dict[str, float]]:
    return [{LOSS: each} for each in losses]


FALLING = course(*(1.0 - 0.05 * at for at in range(CHECKPOINTS)))


def test_a_training_that_falls_reaches_its_own_end_in_the_end() -> None:
    assert reached(FALLING, target_of(FALLING), ()) == CHECKPOINTS
    assert has_fallen(FALLING)


def test_one_lucky_checkpoint_is_not_the_target() -> None:
    lucky = course(*([1.0] * 6 + [0.0] + [1.0] * 9))
    assert reached(lucky, {LOSS: 0.4}, ()) is None
    assert reached(lucky, {LOSS: 0.75}, ()) == 7


def test_a_training_half_as_fast_is_there_after_twice_the_rows() -> None:
    slower = course(*(1.0 - 0.025 * at for at in range(2 * CHECKPOINTS)))
    at = reached(slower, target_of(FALLING), ())
    assert at is not None
    assert 2 * CHECKPOINTS - WINDOW <= at <= 2 * CHECKPOINTS


def test_every_figure_has_to_be_there_each_in_its_own_direction() -> None:
    both = [{LOSS: 1.0 - 0.05 * at, "accuracy": 0.04 * at} for at in range(CHECKPOINTS)]
    half = {LOSS: 0.5, "accuracy": 0.0}
    at = reached(both, half, ("accuracy",))
    assert at is not None
    later = reached(both, {**half, "accuracy": 0.5}, ("accuracy",))
    assert later is not None
    assert later > at
    assert reached(both, {**half, "accuracy": 0.7}, ("accuracy",)) is None
    assert reached(both, {**half, "accuracy": 0.7}, ()) == at  # the lower, the better


def test_a_loss_that_only_wanders_is_seldom_one_that_fell() -> None:
    draw = random.Random(1)
    wandering = [course(*(draw.random() for _ in range(CHECKPOINTS))) for _ in range(2000)]
    fell = sum(map(has_fallen, wandering)) / len(wandering)
    assert fell < 2 / 70
    assert LATE <= CHECKPOINTS


@pytest.mark.parametrize(
    ("first", "second", "low"),
    [
        ([1000] * 5, [1000] * 5, 7.8),
        ([1000] * 5, [4000] * 5, 1.95),
        ([1000] * 5, [8000] * 5, 0.975),
        ([1000] * 5, [16000] * 5, 0.4875),
    ],
)
def test_rows_that_are_needed_are_set_against_rows_a_second(
    first: list[float], second: list[float], low: float
) -> None:
    """Eight times the rows a second, and eight times the rows: no gain."""
    found = sooner(first, second, EIGHT, 0.99)
    assert found.low == pytest.approx(low)
    assert found.ratio == pytest.approx(low * 8 / 7.8)


def test_seeds_that_disagree_prove_nothing() -> None:
    found = sooner([1000] * 5, [500, 16000, 700, 9000, 1000], EIGHT, 0.99)
    assert found.low < 1 < found.ratio


def test_fewer_than_three_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 2 seeds, and 3 pairs are needed"):
        sooner([1, 1], [1, 1], EIGHT, 0.99)


def test_no_gain_is_seldom_called_one() -> None:
    """Five seeds whose rows vary by a third, and a speed that just makes up for what is needed."""
    draw = random.Random(2)
    even = Interval(2.0, 2.0, 2.0)
    wrong = sum(
        sooner([1.0] * 5, [2 * math.exp(draw.gauss(0, 0.3)) for _ in range(5)], even, 0.99).low > 1
        for _ in range(2000)
    )
    assert wrong / 2000 < 0.01
