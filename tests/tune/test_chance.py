"""What the repeats of a step came to, in words."""

import pytest

from hasten.measure.messages import MaskedLayer, Repeated
from hasten.tune.chance import check_randomness

REPEATS = 8


def _repeated(layers: int) -> Repeated:
    layer = MaskedLayer(
        rate=0.5,
        kept=(500,) * REPEATS,
        seen=(1000,) * REPEATS,
        prints=tuple(range(REPEATS)),
    )
    return Repeated(
        values={"loss": tuple(0.1 * number for number in range(REPEATS))},
        layers={f"dropout{number}": layer for number in range(layers)},
        applied=(),
    )


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (0, "the same stream, to the bit"),
        (1, "the same stream, to the bit; 1 dropout layer keeps what it should within 0 %"),
        (2, "the same stream, to the bit; 2 dropout layers keep what they should within 0 %"),
    ],
)
def test_layers_are_counted_as_people_count(layers: int, words: str) -> None:
    check = check_randomness(_repeated(layers), _repeated(layers), decides=True)
    assert check is not None
    assert check.why == words
