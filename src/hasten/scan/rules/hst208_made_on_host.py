"""A tensor that is made on the host and then copied."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.values import moves_to_device


class MadeOnHost(Rule):
    code = "HST208"
    name = "made-on-host"
    why = (
        "The host fills the tensor and the copy keeps Python waiting; the device would fill it in"
        " no time, without a copy."
    )
    instead = (
        "Make it where it is used: `torch.zeros(n, device=x.device)`, `x.new_zeros(n)`; keep what"
        " does not change in a buffer."
    )
    risk = "random numbers come from the device's generator and are others than before"
    calls = ("to", "cuda", "type_as", "tensor", "as_tensor")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        prior = torch.ones(x.shape).to(x.device)  # !
        steps = (torch.rand(4) * 3).long().cuda()  # !
        least = torch.tensor([0]).type_as(x)  # !
        labels = torch.tensor(range(len(x)), device=x.device)  # !
        noise = torch.randn(3)
        noise = noise.to(x.device)  # !
        return prior + steps + least + labels + noise
""",
        """\
import numpy as np
import torch

def play(model, world, device):
    seen = world.reset()
    while True:
        seen = torch.as_tensor(np.asarray(seen), device=device)  # !
        seen = world.step(model(seen))
        rows = [each.row for each in seen]
        model(torch.tensor(rows, device=device))  # !
""",
        """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, device):
        self.scale = torch.ones(3).to(device)

    def forward(self, x):
        total = torch.tensor(0.0, device=x.device) + torch.as_tensor(x, device=x.device)
        zeros = torch.zeros(len(x), device=x.device).to(x.device)
        return total + zeros + torch.ones_like(x).to(x.device)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if called_name(call) in ("tensor", "as_tensor"):
            if look.is_of_torch(call) and self._copies_list(call, site, look):
                yield Found(call, f"`{look.source(call)}` is built in Python and copied")
            return
        moved = receiver(call)
        if moved is None or look.prepares_data(site):
            return
        if called_name(call) != "type_as" and not moves_to_device(call):
            return
        made = look.origin(moved, site)
        if look.makes_tensor(made) and not _is_scalar(made, site):
            yield Found(call, f"`{look.source(made)}` is made on the host and then copied")

    def _copies_list(self, call: ast.Call, site: Site, look: Look) -> bool:
        if keyword(call, "device") is None or not call.args or look.prepares_data(site):
            return False
        given = call.args[0]
        if isinstance(given, ast.Call) and called_name(given) == "range":
            return True
        return look.value(given, site).kind in ("list", "array")


def _is_scalar(made: ast.expr, site: Site) -> bool:
    """A single constant, outside of any loop of the function."""
    return (
        site.loop is None
        and isinstance(made, ast.Call)
        and len(made.args) == 1
        and isinstance(made.args[0], ast.Constant)
        and called_name(made) == "tensor"
    )
