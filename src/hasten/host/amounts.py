"""Amounts as people write them: ``5GB``, ``30d``."""

import math
import re
from collections.abc import Mapping

from hasten.errors import HastenError

BYTES = {
    "B": 1,
    **{f"{prefix}B": 1000 ** (power + 1) for power, prefix in enumerate("KMGT")},
    **{f"{prefix}iB": 1024 ** (power + 1) for power, prefix in enumerate("KMGT")},
}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
LEAST_ALONE = 2**20
"""A smaller number without a unit was meant as something larger than bytes."""
AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """``500MB`` is 500,000,000 bytes and ``500MiB`` 524,288,000; a number alone is bytes."""
    return math.floor(_parse(text, {"": 1, **BYTES}, "a size", "5GB, 500MiB or 1000000"))


def parse_some_bytes(text: str) -> int:
    """The same, of what has to hold something."""
    size = parse_bytes(text)
    if not size:
        raise HastenError(f"{text!r} is no memory at all.", fix="Write it as 5GB or 500MiB.")
    if text.strip().isdecimal() and size < LEAST_ALONE:
        raise HastenError(
            f"{text!r} alone is {size:,} bytes, which hold no training.",
            fix=f"Write it with its unit: {text.strip()}GB, or {text.strip()}B if it is meant so.",
        )
    return size


def parse_duration(text: str) -> float:
    """Seconds, of ``90s``, ``30m``, ``12h``, ``30d`` or ``2w``."""
    return _parse(text, SECONDS, "a time", "90s, 30m, 12h, 30d or 2w")


def _parse(text: str, units: Mapping[str, int], what: str, examples: str) -> float:
    known = {name.lower(): factor for name, factor in units.items()}
    found = AMOUNT.fullmatch(text)
    if found is None or found[2].lower() not in known:
        raise HastenError(f"{text!r:.80} is not {what}.", fix=f"Write it as {examples}.")
    return float(found[1]) * known[found[2].lower()]
