"""What the repeats of a step came to, in words."""

import pytest

from hasten.measure.messages import MaskedLayer, Repeated
from hasten.tune.chance import check_randomness

REPEATS = 8


def _repeated(layers: int, repeats: int = REPEATS) -> Repeated:
    layer = MaskedLayer(
        rate=0.5,
        kept=(500,) * repeats,
        seen=(1000,) * repeats,
        prints=tuple(range(repeats)),
    )
    return Repeated(
        values={"loss": tuple(0.1 * number for number in range(repeats))},
        layers={f"dropout{number}": layer for number in range(layers)},
        applied=(),
    )


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (0, "the same random numbers, to the bit"),
        (1, "the same random numbers, to the bit; dropout rates right to 0 % (1 layer)"),
        (2, "the same random numbers, to the bit; dropout rates right to 0 % (2 layers)"),
    ],
)
def test_layers_are_counted_as_people_count(layers: int, words: str) -> None:
    check = check_randomness(_repeated(layers), _repeated(layers), decides=True)
    assert check is not None
    assert check.why == words


def test_one_repeat_alone_does_not_tell_that_nothing_is_random() -> None:
    """As where the time for repeats was over after the first."""
    assert check_randomness(_repeated(1, 1), _repeated(1, 1), decides=True) is None
