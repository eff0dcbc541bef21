"""A tensor, or an array in a container, that is copied whole for every piece that is added."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, root_name

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
        if site.loop is None and not _is_kept(target):
            return
        least = Heat.ONCE if _is_only_gathered(target, site) else None
        yield Found(call, f"`{look.source(target)}` is copied whole in every turn", least=least)


def _is_given(call: ast.Call, statement: ast.Assign) -> bool:
    """Whether the statement gives its target what the call gives, at least from the second turn
    on: ``x = y if x is None else torch.cat([x, y])``."""
    value = statement.value
    return value is call or (isinstance(value, ast.IfExp) and call in (value.body, value.orelse))


def _is_kept(target: ast.expr) -> bool:
    """``self.found`` and ``self.found[key]``: what stays from one call to the next; not what a
    decoder needs as a whole for each step."""
    root = root_name(target)
    return root is not None and root.id == "self" and not DECODING.search(ast.dump(target))


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
