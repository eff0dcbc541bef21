"""A model run again on the same input, for another part of what it gives."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.models import is_model_call
from hasten.scan.outline import Block, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import names
from hasten.scan.vocabulary import words

CHANGES = words("backward step load_state_dict train eval update to cuda")
"""What makes a second run another one."""


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
        call = _of_part(site.node.value)
        takes_part = call is not site.node.value
        if not isinstance(call, ast.Call) or not call.args:
            return
        if not takes_part and (site.block is None or not isinstance(site.block.node, ast.With)):
            return
        if not is_model_call(call, site.function, look):
            return
        for each in _same_calls(call, site, look):
            is_other = look.without_grad(each) != look.without_grad(site)
            if (takes_part or is_other) and _gives_the_same(each, site):
                yield Found(call, f"`{look.source(call)}` was computed above")
                return


def _same_calls(call: ast.Call, site: Site, look: Look) -> list[Site]:
    """Calls above of the same with the same."""
    name, said = called_name(call), look.source(call)
    return [
        each
        for each in site.function.calls
        if each.node.lineno < call.lineno
        and called_name(each.node) == name
        and look.source(each.node) == said
    ]


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


def _gives_the_same(earlier: Site, site: Site) -> bool:
    """Whether both run, one after the other, with nothing in between that changes the result."""
    if earlier.loop is not site.loop or not _stands_in(earlier.block, site.block):
        return False
    between = range(earlier.statement.lineno, site.node.lineno)
    if any(
        each.node.lineno in between and called_name(each.node) in CHANGES
        for each in site.function.calls
    ):
        return False
    given = {name for each in earlier.node.args for name in names(each)}
    return not any(
        each.line in between for name in given for each in site.function.bindings.get(name, ())
    )


def _stands_in(outer: Block | None, inner: Block | None) -> bool:
    """Whether what stands in the one block has run where the other does; ``with`` is no bar."""
    while outer is not None and isinstance(outer.node, ast.With):
        outer = outer.parent
    return outer is None or (
        inner is not None
        and any(
            each.node is outer.node and each.branch == outer.branch for each in inner.outwards()
        )
    )
