"""Results of a whole data set, collected on the device."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.models import model_behind
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

MADE_SMALL = ("cpu", "numpy", "item", "tolist", "mean", "sum", "argmax", "detach", "len")
"""What leaves nothing on the device, or little."""


class ResultsKeptOnDevice(Rule):
    code = "HST303"
    name = "results-kept-on-device"
    why = "Device memory grows with the size of the data set until the loop is over."
    instead = "Move each result to the host in the loop, or write it into a preallocated tensor."
    calls = ("append",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def predict(model, loader):
    results = []
    with torch.no_grad():
        for x in loader:
            out = model(x)
            results.append(out)  # !
    return results
""",
        """\
import torch

def predict(model, loader):
    results, layers = [], []
    with torch.no_grad():
        for x in loader:
            out = model(x)
            results.append(out.cpu())
            score = model(x).mean()
            layers.append(score)
    return results
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None or not site.node.args or not look.without_grad(site):
            return
        kept = site.node.args[0]
        holder = receiver(site.node)
        if not isinstance(holder, ast.Name) or not self._over_data(site, look):
            return
        if model_behind(kept, site.function, look, MADE_SMALL) is not None:
            yield Found(site.node, f"`{holder.id}` holds results of the model on the device")

    def _over_data(self, site: Site, look: Look) -> bool:
        return any(look.heats.kind_of(each) is Heat.STEP for each in look.loops(site))
