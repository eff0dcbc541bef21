"""How often something is done: every so many steps or epochs."""

import re
from dataclasses import dataclass
from typing import Literal, Self, cast

from hasten.errors import HastenError

Unit = Literal["step", "epoch"]

_SPELLING = re.compile(r" *([0-9]{1,15}) *(?:(step|epoch)s?)? *")


@dataclass(frozen=True)
class Every:
    """How often something is done in a training."""

    count: int
    """1 or more."""
    unit: Unit
    """Steps of the optimizer, or epochs."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.unit not in ("step", "epoch"):
            raise _not_an_interval(f"{self.count} {self.unit}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """``500``, ``500 steps`` or ``2 epochs``, with or without the space; a bare number counts
        steps."""
        found = _SPELLING.fullmatch(text)
        if found is None or int(found[1]) < 1:
            raise _not_an_interval(text)
        return cls(int(found[1]), cast(Unit, found[2] or "step"))

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"


def _not_an_interval(text: str) -> HastenError:
    return HastenError(
        f"{text!r} is not how often something can be done.",
        fix="Use a number of steps or epochs from 1 up, such as 500, '500 steps' or 1epoch.",
    )
