"""Losses of several forward passes, summed and sent back together."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.models import is_model_call, model_behind
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, is_bound_in, names, varies

SUMS = ("sum", "stack", "mean", "cat")


class OneBackwardForAll(Rule):
    code = "HST320"
    name = "one-backward-for-all"
    why = (
        "The activations of all forward passes are alive until the sum goes back; each loss could"
        " go back at once, since gradients add up."
    )
    instead = "Call `backward` on each loss in the loop, divided as the sum is."
    risk = "rounding: gradients are added in another order"
    calls = ("backward",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, scales, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        loss = 0
        for scale in scales:
            out = model(F.interpolate(x, scale_factor=scale))
            loss = loss + F.cross_entropy(out, y)
        scaler.scale(loss / len(scales)).backward()  # !
        optimizer.step()
""",
        """\
import torch

class Trainer:
    def train_step(self, views, y):
        losses = []
        for view in views:
            losses.append(self.criterion(self.model(view), y))
        total = torch.stack(losses).mean()
        total.backward()  # !
        self.optimizer.step()
""",
        """\
import torch

def train(net, parts, optimizer):
    total = 0.0
    for x, y in parts:
        total += net(x, y)
    total.backward()  # !
    optimizer.step()
""",
        """\
import torch
import torch.nn.functional as F

def train(model, generator, critic, loader, optimizer, scales):
    for x, y in loader:
        loss = 0
        outs = model(x)
        for scale, out in zip(scales, outs):
            loss += F.mse_loss(out, F.interpolate(y, scale_factor=scale))
        loss.backward()

def unroll(model, state, steps, target):
    loss = 0
    for step in range(steps):
        state = model(state)
        loss += F.mse_loss(state, target)
    loss.backward()

def adversarial(generator, critic, z, scales):
    fake, loss = generator(z), 0
    for scale in scales:
        loss += critic(F.interpolate(fake, scale_factor=scale)).mean()
    loss.backward()

def each(model, scales, x, y):
    for scale in scales:
        loss = 0
        loss += F.cross_entropy(model(F.interpolate(x, scale_factor=scale)), y)
        loss.backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for loop in site.function.loops:
            if not loop.is_statement or (loop.node.end_lineno or 0) >= site.node.lineno:
                continue
            if loop.outer is site.loop and self._gathers(loop, site, look):
                yield Found(
                    site.node, f"all passes of the loop at line {loop.line} are kept for it"
                )
                return

    def _gathers(self, loop: Loop, site: Site, look: Look) -> bool:
        """Whether a model runs in it for each turn by itself, and what goes back is their sum."""
        kept = _gathered_in(loop)
        return not kept.isdisjoint(_sent_back(site)) and any(
            _runs_by_itself(each, loop, look) for each in calls_in(loop)
        )


def _gathered_in(loop: Loop) -> set[str]:
    """Names that a loop adds to: ``loss += ...``, ``loss = loss + ...``, ``losses.append``."""
    found = {
        name
        for name, bindings in loop.function.bindings.items()
        for each in bindings
        if loop.holds(each.line)
        and each.value is not None
        and (each.how == "changed" or (each.how == "value" and name in names(each.value)))
        and any(other.line < loop.line for other in bindings)
    }
    for each in calls_in(loop):
        held = receiver(each.node)
        if each.called == "append" and isinstance(held, ast.Name):
            found.add(held.id)
    return found


def _sent_back(site: Site) -> set[str]:
    """Names that what goes back is made of; a sum of a list is looked behind."""
    held = receiver(site.node)
    found = set(names(held)) if held is not None else set()
    for name in list(found):
        for each in site.function.bindings.get(name, ()):
            if each.line <= site.node.lineno and called_name(_inner(each.value)) in SUMS:
                found |= set(names(each.value)) if each.value is not None else set()
    return found


def _inner(node: ast.expr | None) -> ast.expr | None:
    """``stack(...)`` of ``stack(...).mean()`` and of ``stack(...) / 2``."""
    while True:
        match node:
            case ast.BinOp(left=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=ast.Call() as inner)):
                node = inner
            case _:
                return node


def _runs_by_itself(call: Site, loop: Loop, look: Look) -> bool:
    """Whether a model is called with what this turn gives, and nothing of another model."""
    function = loop.function
    if not is_model_call(call.node, function, look) or loop.changes(call.node.func):
        return False
    given = [*call.node.args, *(word.value for word in call.node.keywords)]
    if not any(varies(each, loop) for each in given):
        return False
    line = call.node.lineno
    read = {name for each in given for name in names(each)}
    carried = any(
        loop.holds(each.line) and each.line >= line and each.how != "loop"
        for name in read
        for each in function.bindings.get(name, ())
        if is_bound_in(name, loop)
    )
    return not carried and all(model_behind(each, function, look) is None for each in given)
