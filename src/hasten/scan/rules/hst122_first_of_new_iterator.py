"""One batch of an iterator that is made for it."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class FirstOfNewIterator(Rule):
    code = "HST122"
    name = "iterator-made-for-one-batch"
    why = (
        "`iter(loader)` starts workers, shuffles all indices and loads several batches ahead, of"
        " which one is used."
    )
    instead = "Keep one iterator and call `next` on it, making a new one when it ends."
    verify = "Compare the order of samples."
    risk = "samples come without replacement, as in an epoch"
    calls = ("next",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, train_loader, steps):
    for step in range(steps):
        x = next(iter(train_loader))  # !
        model(x).backward()
""",
        """\
import torch

def train(model, train_loader, steps):
    shape = next(iter(train_loader)).shape
    batches = iter(train_loader)
    for step in range(steps):
        model(next(batches)).backward()
        device = next(iter(model.parameters())).device
    return shape, device
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        made = site.node.args[0] if site.node.args else None
        if not isinstance(made, ast.Call) or called_name(made) != "iter" or not made.args:
            return
        if site.loop is not None and look.value(made.args[0], site).kind == "loader":
            least = Heat.ONCE if look.local(site).inner else None
            yield Found(site.node, f"`{look.source(made)}` is made for one batch", least=least)
