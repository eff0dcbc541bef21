"""A tensor, or an array in a container, that is copied whole for every piece that is added."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, counter_of, last_name, root_name

COUNTS = ("len", "print")
DECODING = re.compile(r"cache|alive|past|state|prefix|history")


class GrownByJoining(Rule):
    code = "HST308"
    name = "grown-by-joining"
    why = "Each turn copies all that was gathered so far: the work grows with the square."
    instead = "Append the pieces to a list and join them once after the loop."
    effort = "a minute"
    calls = ("cat", "concat", "concatenate", "vstack", "hstack")
    needs_torch = False
    least = Heat.STEP
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def predict(model, loader):
    found = torch.empty(0)
    masks = {}
    for x in loader:
        found = torch.cat([found, model(x)])  # !
        for key, value in masks.items():
            masks[key] = np.vstack([masks[key], value])  # !
    return found

def edges(graphs):
    found = torch.empty(2, 0)
    for graph in graphs:
        found = torch.cat([found, graph.edges], dim=1)  # !
    return found

@torch.no_grad()
def embed(model, loader):
    found = None
    for x, y in loader:
        z = model(x)
        found = z if found is None else torch.cat((found, z), dim=0)  # !
    return found

class Collector:
    def __init__(self):
        self.held = {}

    def collect_scores(self, name, value):
        self.held[name] = torch.cat((self.held[name], value))  # !

def evaluate(model, loader, collector):
    for x in loader:
        collector.collect_scores("scores", model(x))
""",
        """\
import torch

class UNet(torch.nn.Module):
    def forward(self, x, skips):
        for block in self.blocks:
            x = torch.cat((x, skips.pop()), dim=1)
            x = block(x)
        return x

class Replay:
    def before_forward(self, batch):
        self.batch[0] = torch.cat((self.batch[0], batch))

def best(predictions):
    found = [None for _ in predictions]
    for i, rows in enumerate(predictions):
        found[i] = rows if found[i] is None else torch.cat((found[i], rows))
    return found

def decode(model, tokens, steps):
    for step in range(steps):
        tokens = torch.cat((tokens, model(tokens)[:, -1:]), dim=1)
    return tokens

def edges(graphs):
    found = []
    for graph in graphs:
        found.append(graph.edges)
    return torch.cat(found)

def predict(model, loader):
    found = []
    for x in loader:
        found.append(model(x))
    return torch.cat(found)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        statement = site.statement
        if not isinstance(statement, ast.Assign) or not call.args:
            return
        joined, target = call.args[0], statement.targets[0]
        if not isinstance(joined, ast.List | ast.Tuple) or not joined.elts:
            return
        if not _is_given(call, statement) or _as_read(target) not in map(ast.dump, joined.elts):
            return
        if isinstance(target, ast.Name) and not (
            site.loop is not None and look.is_of_torch(call) and _grows(target.id, site.loop, look)
        ):
            return
        if site.loop is None and not (_is_kept(target, site) and _adds_given(joined)):
            return
        if site.loop is not None and (
            _is_needed_whole(target, site.loop) or _is_met_once(target, site.loop)
        ):
            return
        least = Heat.ONCE if _is_only_gathered(target, site) else None
        yield Found(call, f"`{look.source(target)}` is copied whole in every turn", least=least)


def _is_given(call: ast.Call, statement: ast.Assign) -> bool:
    """Whether the statement gives its target what the call gives, at least from the second turn
    on: ``x = y if x is None else torch.cat([x, y])``."""
    value = statement.value
    return value is call or (isinstance(value, ast.IfExp) and call in (value.body, value.orelse))


def _is_kept(target: ast.expr, site: Site) -> bool:
    """``self.found`` and ``self.found[key]``: what begins empty and stays from one call to the
    next; not what a decoder needs as a whole for each step."""
    root, owner = root_name(target), site.function.owner
    if root is None or root.id != "self" or owner is None or DECODING.search(ast.dump(target)):
        return False
    while isinstance(target, ast.Subscript):
        target = target.value
    given = owner.attributes.get(last_name(target), ())
    return any(_is_empty(binding.value) for binding, _ in given)


def _adds_given(joined: ast.List | ast.Tuple) -> bool:
    """Whether something is added that each call brings, and not another part of the object."""
    roots = [root_name(each) for each in joined.elts]
    return any(each is None or each.id != "self" for each in roots)


def _is_empty(node: ast.expr | None) -> bool:
    """``None``, ``{}``, ``defaultdict(list)``, ``torch.tensor([])``, ``torch.empty(0, 3)``."""
    match node:
        case ast.Constant(value=None) | ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(args=args):
            return not args or called_name(node) == "defaultdict" or any(map(_is_nothing, args))
    return False


def _is_nothing(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=0) | ast.List(elts=[]):
            return True
        case ast.Tuple(elts=sizes):
            return any(is_constant(each, 0) for each in sizes)
    return False


def _is_needed_whole(target: ast.expr, loop: Loop) -> bool:
    """Whether the loop gives all that there is so far to something else: what a decoder writes, or
    what the next layer of a dense block reads."""
    if not isinstance(target, ast.Name):
        return False
    return any(
        isinstance(given, ast.Name) and given.id == target.id
        for each in calls_in(loop)
        if each.called not in COUNTS
        for given in [*each.node.args, *(word.value for word in each.node.keywords)]
    )


def _is_met_once(target: ast.expr, loop: Loop) -> bool:
    """Whether each turn has a place of its own: ``found[i]`` of a loop that counts to i."""
    if not isinstance(target, ast.Subscript) or loop.outer is not None:
        return False
    root = root_name(target)
    if root is None or root.id not in loop.function.bindings:
        return False
    return isinstance(loop.node, ast.For) and counter_of(loop.node) == last_name(target.slice) != ""


def _is_only_gathered(target: ast.expr, site: Site) -> bool:
    """Whether a name is of no use to the loop, unlike tokens that the next one is made of."""
    if not isinstance(target, ast.Name) or site.loop is None:
        return False
    inside = [each for each in walk(site.loop.node) if last_name(each) == target.id]
    return len(inside) == 2


def _grows(name: str, loop: Loop, look: Look) -> bool:
    """Whether the loop goes over many things and gives the name no other value."""
    given = [each for each in loop.function.bindings[name] if loop.holds(each.line)]
    return len(given) == 1 and not look.heats.goes_over_few(loop)


def _as_read(target: ast.expr) -> str:
    """The tree of what is written, as it would be where it is read."""
    return ast.dump(target).replace("ctx=Store()", "ctx=Load()")
