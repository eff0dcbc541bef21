"""Labels spread out to floating-point numbers."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, keyword, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name

SMALL = ("bool", "uint8", "int8", "float16", "bfloat16", "half")
ALLOCATES = ("zeros", "zeros_like", "new_zeros")


class FloatOneHot(Rule):
    code = "HST305"
    name = "float-one-hot"
    why = "Four bytes a class for every element, where one index would say the same."
    instead = "Use the index itself (`gather`, `cross_entropy`), or hold the mask as `torch.bool`."
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    calls = ("scatter_", "one_hot")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.nn.functional as F

class Dice(torch.nn.Module):
    def forward(self, x, y):
        hot = torch.zeros(x.shape, device=x.device, dtype=torch.float32)  # !
        hot.scatter_(1, y.long(), 1)
        other = F.one_hot(y, 10).float()  # !
        third = F.one_hot(y, 10).to(x.dtype)  # !
        return (x * hot).sum(), other
""",
        """\
import torch
import torch.nn.functional as F

class Dice(torch.nn.Module):
    def forward(self, x, y, z):
        hot = torch.zeros(x.shape, device=x.device, dtype=torch.bool)
        hot.scatter_(1, y.long(), 1)
        z.scatter_(1, y, 0.5)
        return (x * hot).sum() + F.cross_entropy(x, y), F.one_hot(y, 10)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if called_name(call) == "one_hot":
            if _is_cast(site):
                yield Found(call, "`one_hot` is turned into floating-point numbers")
            return
        if len(call.args) < 3 or not any(is_constant(call.args[2], one) for one in (1, 1.0)):
            return
        made = last_given(receiver(call), site.function)
        if called_name(made) not in ALLOCATES or not isinstance(made, ast.Call):
            return
        if last_name(keyword(made, "dtype")) not in SMALL:
            yield Found(made, f"`{look.source(receiver(call) or call)}` is one-hot in floats")


def _is_cast(site: Site) -> bool:
    """``one_hot(...).float()``, ``.to(x.dtype)`` and ``.type(torch.float)``."""
    cast = site.parent
    if not isinstance(cast, ast.Attribute):
        return False
    if cast.attr in ("float", "double", "type_as"):
        return True
    return cast.attr in ("to", "type") and any(
        last_name(each).startswith(("float", "dtype"))
        for outer in walk(site.statement)
        if isinstance(outer, ast.Call) and outer.func is cast
        for each in outer.args
    )
