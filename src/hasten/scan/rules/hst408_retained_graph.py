"""Two backward passes over one graph."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, keyword
from hasten.scan.nodes import parts_of, walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import names
from hasten.scan.vocabulary import words

CUTS = words("item detach tolist float int len numpy")
"""What gives of a tensor has no graph."""
READERS = words("print float str isnan isinf isfinite scale backward step")
"""Functions that do not keep a loss."""


class RetainedGraph(Rule):
    code = "HST408"
    name = "retained-graph"
    why = (
        "The graph is kept after its backward pass, to be gone through a second time or for"
        " nothing; all of its activations stay in memory meanwhile."
    )
    instead = (
        "Add the losses and call `backward()` once; or detach what the second loss should not"
        " reach. With no other backward pass leave `retain_graph` out."
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
    def fit(self, loader):
        total = 0.0
        for x, y in loader:
            loss = self.criterion(self.model(x), y)
            loss.backward(retain_graph=True)  # !
            self.optimizer.step()
            total += loss.item()
            self.seen = loss.detach()
        return total

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

def recurrent(model, loader, state):
    for x in loader:
        loss, state = model(x, state)
        loss.backward(retain_graph=True)

def shared(model, loader, table):
    rows = torch.relu(table)
    for x in loader:
        loss = model(x, rows)
        loss.backward(retain_graph=True)

class Solver:
    def losses(self, x):
        first = self.first(x)
        first.backward(retain_graph=True)
        return first + self.second(x)

    def keep(self, x):
        self.out, loss = self.model(x)
        loss.backward(retain_graph=True)

    def collect(self, x, losses):
        loss = self.model(x)
        loss.backward(retain_graph=True)
        losses.append(loss)

def retain(model, x, keep):
    model(x).backward(retain_graph=keep)
    model(x).backward(retain_graph=False)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not is_constant(keyword(call, "retain_graph"), True):
            return
        later = {each.called for each in site.function.calls if each.node.lineno > call.lineno}
        if "grad" in later:
            return
        if "backward" in later or _goes_round(site):
            yield Found(call, f"`{look.source(call.func)}` keeps its graph for another one")
        elif not _leaves(site) and not _is_shared(site, look):
            yield Found(
                call, f"`{look.source(call.func)}` keeps its graph for nothing; leave it out"
            )


def _losses(site: Site) -> set[str]:
    return set(names(site.node))


def _goes_round(site: Site) -> bool:
    """Whether the next turn goes back through what an outer part made: ``for loss in losses``."""
    if site.loop is None:
        return False
    target, _ = site.loop.header()
    return target is not None and not _losses(site).isdisjoint(names(target))


def _leaves(site: Site) -> bool:
    """Whether something that may have the graph is returned, kept or handed on."""
    for each in walk(site.function.node):
        match each:
            case ast.Return(value=value) | ast.Yield(value=value) if _may_have_graph(value, site):
                return True
            case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.AnnAssign(value=value):
                if _is_kept(each) and _has_values(value):
                    return True
            case ast.Call(args=args) if each is not site.node and called_name(each) not in READERS:
                if any(not _losses(site).isdisjoint(_live(one)) for one in args):
                    return True
    return False


def _is_kept(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    """Whether it is put where others find it."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(
        isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store)
        for target in targets
        for each in walk(target)
    )


def _is_shared(site: Site, look: Look) -> bool:
    """Whether a turn of the loop may go on from what an earlier one, or what stands before the
    loop, has computed."""
    for loop in site.loop.outwards() if site.loop is not None else ():
        first_use: dict[str, int] = {}
        for each in walk(loop.node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                first_use[each.id] = min(each.lineno, first_use.get(each.id, each.lineno))
        for name, used in first_use.items():
            bindings = site.function.bindings.get(name, ())
            if any(
                each.how != "loop" and _has_values(each.value)
                for each in bindings
                if loop.holds(each.line)
            ) and used <= min(each.line for each in bindings if loop.holds(each.line)):
                return True
            before = (each for each in bindings if each.line < loop.line)
            if any(look.value(each.value, site).is_tensor for each in before):
                return True
    return False


def _may_have_graph(value: ast.expr | None, site: Site) -> bool:
    """Whether it is computed of names that the function gives a value that is no number."""
    return value is not None and any(
        _has_values(each.value)
        for name in _live(value)
        for each in site.function.bindings.get(name, ())
    )


def _has_values(value: ast.expr | None) -> bool:
    return value is not None and bool(_live(value))


def _live(value: ast.expr) -> set[str]:
    """The names in it that are not read or detached there."""
    found, stack = set[str](), [value]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif called_name(node) not in CUTS:
            stack += [each for each in parts_of(node) if isinstance(each, ast.expr)]
    return found
