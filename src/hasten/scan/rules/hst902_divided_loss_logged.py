"""A loss that is logged after it was divided for accumulation."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, names_in, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

ACCUMULATES = re.compile(r"accum", re.IGNORECASE)


class DividedLossLogged(Rule):
    code = "HST902"
    name = "divided-loss-logged"
    why = "The loss that is logged is smaller than the true one by the number of batches."
    instead = "Log the loss before dividing, or multiply it again."
    effort = "a minute"
    risk = "logged figures become the true ones"
    calls = ("item", "detach")
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, accumulation):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss = loss / accumulation
        loss.backward()
        total += loss.item()  # !
    return total / len(loader)
""",
        """\
import torch

def train(model, loader, optimizer, accumulation):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        (loss / accumulation).backward()
        total += loss.item()
    for i, (x, y) in enumerate(loader):
        loss = model(x, y) / accumulation
        loss.backward()
        total += loss.item() * accumulation
    return total / len(loader)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        read = receiver(site.node)
        if not isinstance(read, ast.Name) or isinstance(site.parent, ast.BinOp):
            return
        given = look.values.given(read, site.function)
        if (
            isinstance(given, ast.BinOp)
            and isinstance(given.op, ast.Div)
            and any(ACCUMULATES.search(each) for each in names_in(given.right))
        ):
            yield Found(site.node, f"`{read.id}` was divided by the number of batches")
