"""A model called for one input at a time where it takes many."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, varies

MIRRORS = ("flip", "rot90", "fliplr", "flipud", "hflip", "vflip")
ENCODES = ("encode", "predict", "embed", "generate")


class SingleItemForward(Rule):
    code = "HST415"
    name = "single-item-forward"
    why = "A small batch takes the device hardly less time than a large one."
    instead = "Stack the inputs along the batch, call once, and split."
    risk = "layers that couple samples of a batch give other numbers; more memory at once"
    effort = "an hour"
    calls = (*MIRRORS, *ENCODES, "unsqueeze")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Predictor:
    def predict(self, x):
        out = self.network(x)
        for axes in self.mirrors:
            out += torch.flip(self.network(torch.flip(x, axes)), axes)  # !
        return out
""",
        """\
import torch

def rank(model, queries, images):
    found = []
    for query in queries:
        found.append(model.encode([query]))  # !
    for image in images:
        found.append(model(image.unsqueeze(0)))  # !
    return found
""",
        """\
import torch

def rank(model, queries, loader, mask):
    found = model.encode(queries)
    for batch in loader:
        found = model(batch, mask.unsqueeze(0)) + torch.flip(batch, (0,))
        found = model.encode(batch) + model(batch.unsqueeze(1))
    return found
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None:
            return
        call: ast.Call = site.node
        name = called_name(call)
        if name in ENCODES:
            if _takes_one(call):
                yield Found(call, f"`{look.source(call.func)}` is called for one at a time")
            return
        model = site.parent
        if not isinstance(model, ast.Call) or model.args[:1] != [call]:
            return
        if name == "unsqueeze" and not (
            is_constant(call.args[0] if call.args else None, 0) and varies(call, site.loop)
        ):
            return
        if look.value(model.func, site).kind == "module":
            yield Found(model, f"`{look.source(model.func)}` is called for one at a time")


def _takes_one(call: ast.Call) -> bool:
    """``model.encode([text])``."""
    if not call.args or last_name(receiver(call)) in ("", "self"):
        return False
    return isinstance(call.args[0], ast.List) and len(call.args[0].elts) == 1
