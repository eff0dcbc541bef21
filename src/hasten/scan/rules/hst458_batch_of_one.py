"""A loop that makes a batch of each thing by itself, and runs a model on it."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant
from hasten.scan.models import is_model_call
from hasten.scan.nodes import walk
from hasten.scan.outline import STEPS, Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, names, varies
from hasten.scan.turns import hands_on_tensor, over_moments

EXPANDS = ("unsqueeze", "expand_dims")


class BatchOfOne(Rule):
    code = "HST458"
    name = "batch-of-one"
    why = "A model takes hardly longer for many inputs than for one, and is called for each."
    instead = (
        "Collect the inputs, join them to batches (`torch.stack`, or pad), and call once each."
    )
    verify = "Compare the results of both versions."
    risk = "layers that couple samples of a batch give other numbers; more memory at once"
    effort = "an hour"
    calls = EXPANDS
    nodes = (ast.Subscript,)
    indexed = (ast.Constant, ast.Tuple)
    in_loops = True
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

@torch.no_grad()
def predict(model, images, device):
    found = []
    for image in images:
        x = image.unsqueeze(0).to(device)
        found.append(model(x).argmax(1))  # !
    for i in range(len(images)):
        found.append(model(images[i][None].to(device)))  # !
    return found
""",
        """\
import torch

def play(model, env, length, images, loader, optimizer):
    state = env.reset()
    for _ in range(length):
        x = torch.as_tensor(state).unsqueeze(0)
        state = env.step(model(x).argmax())
    for image in images:
        x = image.unsqueeze(0)
        model(x).sum().backward()
    for batch in loader:
        mask = batch.mask.unsqueeze(0)
        model(batch.x, mask)
    for t in range(length):
        x = images[t].unsqueeze(0)
        state = model(x, state)
    return state
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = site.loop
        if loop is None or not _makes_one(site.node) or not varies(site.node, loop):
            return
        if look.heats.goes_over_batches(loop) or look.heats.goes_over_few(loop):
            return
        if over_moments(loop) or hands_on_tensor(loop, look) or _needs_turns(loop):
            return
        for each in calls_in(loop):
            if _takes(each.node, site) and is_model_call(each.node, site.function, look):
                yield Found(each.node, f"`{look.source(each.node.func)}` is called for one input")
                return


def _makes_one(node: ast.Call | ast.Subscript) -> bool:
    """``x.unsqueeze(0)``, ``np.expand_dims(x, 0)``, ``x[None]``."""
    if isinstance(node, ast.Subscript):
        index = node.slice
        first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
        return is_constant(first, None) and isinstance(node.ctx, ast.Load)
    given = [*node.args, *(word.value for word in node.keywords)]
    return bool(given) and is_constant(given[-1], 0)


def _needs_turns(loop: Loop) -> bool:
    """Whether an environment or an optimizer takes a step in each turn."""
    return any(each.called in ("step", *STEPS) for each in calls_in(loop))


def _takes(call: ast.Call, site: Site) -> bool:
    """Whether the first thing that a call is given is the batch, by a name or there and then."""
    if not call.args or call is site.node:
        return False
    given = call.args[0]
    statement = site.statement
    if isinstance(given, ast.Name):
        return isinstance(statement, ast.Assign) and given.id in names(statement.targets[0])
    is_plain = called_name(given) in EXPANDS
    return not is_plain and any(each is site.node for each in walk(given))
