"""A model run again on the same input, for another part of what it gives."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.again import gives_the_same, same_above
from hasten.scan.look import Look
from hasten.scan.models import is_model_call
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class SameForwardAgain(Rule):
    code = "HST433"
    name = "same-forward-again"
    why = "All of the model is computed a second time for what the first run has given already."
    instead = "Keep the first result and take both parts of it (`detach()` it where needed)."
    risk = "none without dropout in the model"
    effort = "a minute"
    nodes = (ast.Assign,)
    assigned = (ast.Call, ast.Attribute, ast.Subscript, ast.Compare)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Solver(torch.nn.Module):
    def forward(self, batch):
        one = self.model(batch.reference)[0]
        two = self.model(batch.reference)[1]  # !
        right = (self.model(batch.reference).argmax(1) == batch.y).float().mean()  # !
        dist = self.policy(batch).dist
        with torch.no_grad():
            old = self.policy(batch).dist  # !
        return one, two, dist, old
""",
        """\
import torch

class Solver(torch.nn.Module):
    def forward(self, batch, optimizer):
        first = self.encoder(batch)
        second = self.encoder(batch)
        three = self.model(batch.negative)[1]
        three = three + self.model(batch.reference)[0]
        if self.training:
            dist = self.policy(batch).dist
        else:
            dist = self.policy(batch).mean
        dist.sum().backward()
        optimizer.step()
        return first, second, three, self.policy(batch).mean
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        value = site.node.value
        within = site.block is not None and isinstance(site.block.node, ast.With)
        if not within and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            return  # as of most that are assigned
        call = _of_part(value)
        takes_part = call is not value
        if not isinstance(call, ast.Call) or not call.args or not (takes_part or within):
            return
        if not is_model_call(call, site.function, look):
            return
        for each in same_above(call, site, look):
            is_other = look.without_grad(each) != look.without_grad(site)
            if (takes_part or is_other) and gives_the_same(each, site):
                yield Found(call, f"`{look.source(call)}` was computed above")
                return


def _of_part(node: ast.expr) -> ast.expr:
    """``model(x)`` of ``model(x)[0].mean`` and of ``(model(x).argmax(1) == y).sum()``."""
    while True:
        if isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Compare):
            node = node.left
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if not _is_result(node.func.value):
                return node
            node = node.func.value
        else:
            return node


def _is_result(node: ast.expr) -> bool:
    """Whether it is what a call gives, or is compared with it."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Call | ast.Compare)
