"""A tensor, or an array in a container, that is copied whole for every piece that is added."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule

JOINS = ("cat", "concat", "concatenate", "vstack", "hstack")


class GrownByJoining(Rule):
    code = "HST308"
    name = "grown-by-joining"
    why = "Each turn copies all that was gathered so far: the work grows with the square."
    instead = "Append the pieces to a list and join them once after the loop."
    effort = "a minute"
    nodes = (ast.Assign,)
    needs_torch = False
    least = Heat.STEP
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def predict(model, loader):
    found = torch.empty(0)
    masks = {}
    for x in loader:
        found = torch.cat([found, model(x)])  # !
        for key, value in masks.items():
            masks[key] = np.vstack([masks[key], value])  # !
    return found
""",
        """\
import torch

class UNet(torch.nn.Module):
    def forward(self, x, skips):
        for block in self.blocks:
            x = torch.cat((x, skips.pop()), dim=1)
            x = block(x)
        return x

def predict(model, loader):
    found = []
    for x in loader:
        found.append(model(x))
    return torch.cat(found)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call, target = site.node.value, site.node.targets[0]
        if site.loop is None or called_name(call) not in JOINS or not call.args:
            return
        joined = call.args[0]
        if not isinstance(joined, ast.List | ast.Tuple) or not joined.elts:
            return
        if ast.unparse(joined.elts[0]) != ast.unparse(target):
            return
        if isinstance(target, ast.Name) and not (
            look.is_of_torch(call) and _grows(target.id, site.loop, look)
        ):
            return
        yield Found(site.node, f"`{look.source(target)}` is copied whole in every turn")


def _grows(name: str, loop: Loop, look: Look) -> bool:
    """Whether the loop goes over many things and gives the name no other value."""
    given = [each for each in loop.function.bindings[name] if loop.holds(each.line)]
    return len(given) == 1 and not look.heats.goes_over_few(loop)
