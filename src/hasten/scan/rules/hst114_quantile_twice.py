"""Several percentiles of the same array, each by a call of its own."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.vocabulary import words

FUNCTIONS = words("percentile nanpercentile quantile nanquantile")
SORTED = ("array", "tensor", "frame")
"""What has a method for quantiles that sorts; a distribution or a forecast knows them."""
CLOSE = 6
"""Lines between two calls that are about the same array."""


class QuantileTwice(Rule):
    code = "HST114"
    name = "quantiles-one-by-one"
    why = "Each call copies and partly sorts the whole array again."
    instead = "Ask for all at once: `low, high = np.percentile(x, [1, 99])`."
    effort = "a minute"
    verify = "The numbers are the same."
    calls = tuple(FUNCTIONS)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

def normalize(x, tiles):
    low = np.percentile(x, 1)
    high = np.percentile(x, 99)  # !
    lows = np.quantile(tiles, 0.1, axis=(-3, -2))
    spread = np.nanquantile(x, 0.9) - np.nanquantile(x, 0.1)  # !
    return spread, low, high, lows, np.quantile(tiles, 0.9, axis=(-3, -2))  # !
""",
        """\
import numpy as np

def normalize(x, y, forecast):
    low, high = np.percentile(x, [1, 99])
    few = np.percentile(x[::10], 1)
    some = np.percentile(x[::10], 99)
    few, some = forecast.quantile(0.1), forecast.quantile(0.9)
    return low, high, np.percentile(y, 1), few, some
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        of = _array(site.node, look)
        if of is None or isinstance(of, ast.Subscript):
            return
        if of is receiver(site.node) and look.value(of, site).kind not in SORTED:
            return
        text = ast.dump(of)
        for other in site.function.calls:
            call = other.node
            if other.block is not site.block or called_name(call) != site.called:
                continue
            if _follows(site.node, call) and self._is_of(call, text, look):
                yield Found(site.node, f"`{look.source(of)}` is sorted again for another quantile")
                return

    def _is_of(self, call: ast.Call, text: str, look: Look) -> bool:
        of = _array(call, look)
        return of is not None and ast.dump(of) == text


def _follows(call: ast.Call, other: ast.Call) -> bool:
    """Whether it stands behind the other, and close to it."""
    lines = call.lineno - other.lineno
    return 0 < lines <= CLOSE or (lines == 0 and call.col_offset > other.col_offset)


def _array(call: ast.Call, look: Look) -> ast.expr | None:
    """Of ``np.percentile(x, 1)`` and of ``x.quantile(0.1)``."""
    if look.dotted(call.func).partition(".")[0] in ("np", "numpy", "torch"):
        return call.args[0] if call.args else None
    return call.func.value if isinstance(call.func, ast.Attribute) else None
