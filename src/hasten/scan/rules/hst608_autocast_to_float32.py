"""Autocast that casts to full precision."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name
from hasten.scan.outline import Site
from hasten.scan.precision import dtype_of, is_autocast, is_switched_off
from hasten.scan.rule import Found, Rule

FULL = ("torch.float32", "torch.float")


class AutocastToFloat32(Rule):
    code = "HST608"
    name = "autocast-to-float32"
    why = (
        "Autocast knows half precision and bfloat16 only. Asked for float32, of which most models"
        " are made too, it warns and switches itself off: nothing becomes faster."
    )
    instead = "Name the type to compute in: `torch.autocast(device, dtype=torch.bfloat16)`."
    risk = "numbers change by the rounding of bfloat16"
    calls = ("autocast",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float32):  # !
            model(x, y).backward()
""",
        """\
import torch

def train(net, loader, device):
    for x, y in loader:
        with torch.autocast(device_type=device.type, dtype=net.dtype):  # !
            loss = net(x)
        loss.backward()
""",
        """\
import torch

def evaluate(model, loader):
    dtype = next(model.parameters()).dtype
    for x in loader:
        with torch.amp.autocast("cuda", dtype=dtype):  # !
            model(x)
""",
        """\
import torch

def train(model, loader, dtype, x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(x)
    with torch.autocast("cuda", dtype=dtype):
        model(x)
    with torch.autocast("cuda", dtype=torch.float32, enabled=False):
        model(x)
    with torch.autocast("cuda"):
        model(x)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if not is_autocast(call, look) or is_switched_off(call, look):
            return
        if dtype_of(call, site.function, look) in FULL:
            yield Found(call, "autocast to float32 switches itself off")
        elif _is_of_the_model(call, site, look):
            yield Found(call, "autocast to the model's own type changes nothing")


def _is_of_the_model(call: ast.Call, site: Site, look: Look) -> bool:
    dtype = look.values.given(argument(call, 1, "dtype"), site.function)
    if not isinstance(dtype, ast.Attribute) or dtype.attr != "dtype":
        return False
    base = dtype.value
    if isinstance(base, ast.Call) and called_name(base) == "next":
        return True
    return look.value(base, site).kind == "module"
