"""Gradients filled with zeros instead of let go."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.edits import fix_of, replace
from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, assigned, called_name, is_constant, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class GradientsFilled(Rule):
    code = "HST425"
    name = "gradients-filled-with-zeros"
    why = "It writes all gradients, and the backward pass then reads and adds to them."
    instead = "Set them to None: `optimizer.zero_grad()` does, since torch 2.0."
    risk = "a parameter without a gradient is then left out of the step"
    effort = "a minute"
    calls = ("zero_", "zero_grad")
    writes = ("grad",)
    nodes = (ast.FunctionDef,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)  # !
        model(x, y).backward()
        optimizer.step()
        for p in model.parameters():
            p.grad.zero_()  # !
            p.grad.data.zero_()  # !
            p.grad = torch.zeros_like(p)  # !
        optimizer.zero_grad(False)  # !

class Trainer:
    def zero_grad(self, set_to_none: bool = False):  # !
        self.optimizer.zero_grad(set_to_none)
""",
        """\
import torch

def train(model, loader, optimizer, total):
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).backward()
        total.zero_()
        optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.node, ast.FunctionDef):
            if site.node.name == "zero_grad" and _fills_unless_told(site.node):
                yield Found(
                    site.node, "gradients are filled with zeros unless told", least=Heat.ONCE
                )
            return
        if isinstance(site.node, ast.Attribute):
            if called_name(assigned(site)) in ("zeros_like", "zeros"):
                yield Found(site.node, f"`{look.source(site.node)}` is filled with zeros")
            return
        held = receiver(site.node)
        if held is None or isinstance(site.parent, ast.Attribute):  # to be written to
            return
        if site.called == "zero_grad":
            found = is_constant(argument(site.node, 0, "set_to_none"), False)
        else:
            found = ".grad" in look.source(held) and last_name(held) in ("grad", "data")
        if found:
            message = f"`{look.source(held)}` is filled with zeros"
            if called_name(site.node) == "zero_grad":
                message = f"the gradients of `{look.source(held)}` are filled with zeros"
            yield Found(site.node, message, _let_go(site.node, look))


def _fills_unless_told(node: ast.FunctionDef) -> bool:
    """``def zero_grad(self, set_to_none=False)``."""
    places = [*node.args.posonlyargs, *node.args.args]
    given = [*zip(reversed(places), reversed(node.args.defaults), strict=False)]
    given += [
        (place, value)
        for place, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if value is not None
    ]
    return any(place.arg == "set_to_none" and is_constant(value, False) for place, value in given)


def _let_go(call: ast.Call, look: Look) -> Fix | None:
    """``zero_grad(set_to_none=False)`` without what it was told."""
    if called_name(call) != "zero_grad" or len(call.keywords) != 1 or call.args:
        return None
    about = "Lets gradients go: what got none is then left out of the step."
    return fix_of("unsafe", about, replace(look.lines, call.keywords[0].value, "True"))
