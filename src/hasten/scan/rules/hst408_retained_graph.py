"""Two backward passes over one graph."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class RetainedGraph(Rule):
    code = "HST408"
    name = "retained-graph"
    why = (
        "The graph is kept after its backward pass and gone through a second time; all of its"
        " activations stay in memory meanwhile."
    )
    instead = (
        "Add the losses and call `backward()` once; or detach what the second loss should not"
        " reach."
    )
    risk = "rounding: gradients are added in another order"
    calls = ("backward",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        penalty, loss = model(x, y)
        penalty.backward(retain_graph=True)  # !
        loss.backward()
        optimizer.step()

class Solver:
    def losses(self, x):
        first = self.first(x)
        self.optimizer.zero_grad()
        first.backward(retain_graph=True)  # !
        self.optimizer.step()
        return first + self.second(x)

    def all(self, x):
        for loss in self.model(x):
            loss.backward(retain_graph=True)  # !
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        loss.backward(retain_graph=True)
        grads = torch.autograd.grad(loss, model.last)
        optimizer.step()

def retain(model, x, keep):
    model(x).backward(retain_graph=keep)
    model(x).backward(retain_graph=False)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not is_constant(keyword(call, "retain_graph"), True):
            return
        needed = any(
            called_name(each.node) == "grad" and each.node.lineno > call.lineno
            for each in site.function.calls
        )
        if not needed:
            yield Found(call, f"`{look.source(call.func)}` keeps its graph for another one")
