"""A copy of the whole model or optimizer, every step."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class StateCopied(Rule):
    code = "HST310"
    name = "state-copied-per-step"
    why = "All parameters are copied, on the device and by slow Python."
    instead = "Copy once before the loop and update in place, or only when the best score changes."
    calls = ("deepcopy",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import copy
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        before = copy.deepcopy(model.state_dict())  # !
        model(x, y).backward()
        optimizer.step()
    return before
""",
        """\
import copy
import torch

def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            model(x, y).backward()
            optimizer.step()
            settings = copy.deepcopy(model.config)
        best = copy.deepcopy(model.state_dict())
    return best
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not call.args:
            return
        copied = call.args[0]
        if called_name(copied) == "state_dict" or (
            look.value(copied, site).kind == "module" and not last_name(copied).endswith("s")
        ):
            yield Found(call, f"`{look.source(copied)}` is copied whole")
