"""A mean over a whole data set of which a part was dropped."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class MeanOverDropped(Rule):
    code = "HST644"
    name = "mean-over-dropped"
    why = (
        "With `drop_last=True` fewer samples are seen than the data set has: a sum that is divided"
        " by its length comes out too small."
    )
    instead = "Count the samples that were seen, and divide by that."
    effort = "a minute"
    risk = "the figure becomes the right one"
    verify = "Compare with the mean over a list of all batches."
    calls = ("len",)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def train(model, dataset):
    loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)
    total = 0.0
    for x, y in loader:
        total += model(x, y).detach() * len(x)
    return total / len(loader.dataset)  # !
""",
        """\
from torch.utils.data import DataLoader

def train(model, dataset):
    loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)
    total = 0.0
    for x, y in loader:
        total += model(x, y).detach()
    return total / len(loader)
""",
        """\
from torch.utils.data import DataLoader

def train(model, dataset):
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    total = 0.0
    for x, y in loader:
        total += model(x, y).detach() * len(x)
    return total / len(loader.dataset)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        counted = site.node.args[0] if site.node.args else None
        if not isinstance(counted, ast.Attribute) or counted.attr != "dataset":
            return
        divides = isinstance(site.parent, ast.BinOp | ast.AugAssign) and isinstance(
            site.parent.op, ast.Div
        )
        made = look.values.given(counted.value, site.function)
        if divides and isinstance(made, ast.Call) and is_constant(keyword(made, "drop_last"), True):
            yield Found(site.node, f"`{look.source(site.node)}` counts samples that were dropped")
