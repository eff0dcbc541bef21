"""Every decision, concrete: one part per technique. The empty plan changes nothing."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec

from hasten.records.record import Record

Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What TOML promises to keep, and what goes from process to process."""
PartValue = bool | Whole | float | str | list[Whole | float | str]
RawPart = dict[str, PartValue]
"""A part as it stands in a file; the registry decodes it with its technique's own structure."""


class Rung(StrEnum):
    """How much a technique may change the numbers, best first."""

    BITWISE = "bitwise"
    ROUNDING = "rounding"
    PARITY = "parity"
    CHANGES_TRAINING = "changes_training"

    def depth(self) -> int:
        """0 for the best rung; a plan is on the deepest rung of its parts."""
        return list(Rung).index(self)

    def meaning(self) -> str:
        """In words, for people."""
        return MEANINGS[self]

    @staticmethod
    def deepest(rungs: Iterable["Rung"]) -> "Rung":
        """The one that changes most; ``BITWISE`` of none."""
        return max(rungs, key=Rung.depth, default=Rung.BITWISE)


MEANINGS = {
    Rung.BITWISE: "losses, gradients and weights are the same to the bit",
    Rung.ROUNDING: "the numbers differ as two orders of one sum differ, and by no more",
    Rung.PARITY: "the precision changes; it has to train as well as before",
    Rung.CHANGES_TRAINING: "it is another training, and not to be judged by its speed",
}


class Plan(Record, frozen=True, kw_only=True):
    """What to apply: each technique, by its name, with the settings that are not its defaults."""

    parts: dict[str, RawPart] = msgspec.field(default_factory=dict)
    """Such as ``{"compile": {"mode": "default"}}``."""

    def with_part(self, technique: str, part: RawPart) -> "Plan":
        """A copy that has this part, in place of one of the same technique."""
        return Plan(parts={**self.parts, technique: part})

    def without(self, *techniques: str) -> "Plan":
        """A copy that has none of these; those it never had are no fault."""
        kept = {name: part for name, part in self.parts.items() if name not in techniques}
        return Plan(parts=kept)

    def __str__(self) -> str:
        return " + ".join(self.parts) or "naive"


NAIVE = Plan()
