"""Results of layers written into a lasting tensor, with the graph behind each."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.inference import DROPS, NEED_GRADIENTS
from hasten.scan.look import Look, is_constant, is_own_attribute
from hasten.scan.models import LOSSES, model_behind
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class GraphKeptInBuffer(Rule):
    code = "HST316"
    name = "graph-kept-in-buffer"
    why = (
        "Each write adds to the graph of the tensor that is written to: it holds all that the"
        " results were made of for as long as the tensor lives."
    )
    instead = "Fill it under `with torch.no_grad():`, or write `result.detach()`."
    effort = "a minute"
    nodes = (ast.Assign,)
    in_loops = True
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Projector(torch.nn.Module):
    def __init__(self, count, dim):
        super().__init__()
        self.embedding = torch.nn.Embedding(count, dim)
        self.table = torch.nn.Parameter(torch.empty(count, dim), requires_grad=False)
        self.register_buffer("found", torch.zeros(count, dim))

    def project(self, count):
        for i in range(count):
            row = self.embedding(torch.tensor([i]))
            scaled = row.view(-1) / row.norm()
            self.table[i] = scaled  # !

    def fill_memory(self, loader):
        for start, x in enumerate(loader):
            self.found[start : start + len(x), :] = self.embedding(x)  # !
""",
        """\
import torch

class Projector(torch.nn.Module):
    def __init__(self, count, dim):
        super().__init__()
        self.embedding = torch.nn.Embedding(count, dim)
        self.register_buffer("table", torch.zeros(count, dim))

    @torch.no_grad()
    def project(self, count):
        for i in range(count):
            self.table[i] = self.embedding(torch.tensor([i]))

    def fill(self, loader):
        for i, x in enumerate(loader):
            self.table[i] = self.embedding(x).detach()
            self.names[i] = str(x)

    def forward(self, parts):
        out = torch.zeros(3, 4)
        for i, x in enumerate(parts):
            out[i] = self.embedding(x)
        return out
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        target = site.node.targets[0]
        if not isinstance(target, ast.Subscript) or not is_own_attribute(target.value):
            return
        function = site.function
        if _is_part_of_training(function) or not _is_lasting(target.value, site, look):
            return
        stops = (*DROPS, "no_grad")
        if model_behind(site.node.value, function, look, stops) and not look.without_grad(site):
            yield Found(site.node, f"`{look.source(target.value)}` holds on to graphs")


def _is_lasting(node: ast.expr, site: Site, look: Look) -> bool:
    """Whether it is a tensor that the object holds, as an attribute or as a registered buffer."""
    if look.value(node, site).is_tensor:
        return True
    methods = site.function.owner.methods.values() if site.function.owner is not None else ()
    return any(
        is_constant(each.node.args[0], last_name(node))
        for method in methods
        for each in method.calls
        if each.called == "register_buffer" and each.node.args
    )


def _is_part_of_training(function: Function) -> bool:
    """Whether gradients are wanted there."""
    name = function.last_name
    if name.startswith("forward") or LOSSES.search(name):
        return True
    return not function.called.isdisjoint(NEED_GRADIENTS)
