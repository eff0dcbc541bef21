"""A model that is compiled only where it is compiled already."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class InvertedCompileCheck(Rule):
    code = "HST621"
    name = "inverted-compile-check"
    why = (
        "The condition asks for a model that is compiled already where it should ask for one that"
        " is not: what should become faster is left as it was."
    )
    instead = "Put `not` before the check."
    effort = "a minute"
    verify = "See that `torch._dynamo.utils.counters` is not empty after a step."
    calls = ("isinstance", "hasattr")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch._dynamo import OptimizedModule

def build(model, allow_compile):
    allow_compile = allow_compile and not isinstance(model, OptimizedModule)
    allow_compile = allow_compile and isinstance(model.module, OptimizedModule)  # !
    return torch.compile(model) if allow_compile else model
""",
        """\
import torch

def build(model):
    if hasattr(model, "_orig_mod"):  # !
        model = torch.compile(model)
    return model
""",
        """\
import torch

def build(model):
    if not hasattr(torch, "compile"):  # !
        model = torch.compile(model)
    return model
""",
        """\
import torch
from torch._dynamo import OptimizedModule

def build(model):
    is_compiled = isinstance(model, OptimizedModule)
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    elif hasattr(torch, "compile"):
        model = torch.compile(model)
    if not hasattr(model, "_orig_mod"):
        model = torch.compile(model)
    return model
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if len(site.node.args) != 2:
            return
        sought = _compiled_or_able(site.node)
        if not sought:
            return
        negated = isinstance(site.parent, ast.UnaryOp) and isinstance(site.parent.op, ast.Not)
        if negated == (sought == "compiled"):
            return
        statement = site.statement
        if isinstance(statement, ast.If):
            inverted = any(
                isinstance(each, ast.Call) and look.dotted(each.func) == "torch.compile"
                for part in statement.body
                for each in walk(part)
            )
        else:
            inverted = isinstance(site.parent, ast.BoolOp | ast.UnaryOp) and _wants_to_compile(
                statement
            )
        if inverted:
            yield Found(site.node, f"`{look.source(site.node)}` has the wrong sign")


def _compiled_or_able(call: ast.Call) -> str:
    """What is asked: whether a model is compiled, or whether torch is able to."""
    first, second = call.args
    if called_name(call) == "isinstance":
        return "compiled" if "OptimizedModule" in names_in(second) else ""
    if is_constant(second, "_orig_mod"):
        return "compiled"
    is_torch = isinstance(first, ast.Name) and first.id == "torch"
    return "able" if is_torch and is_constant(second, "compile") else ""


def _wants_to_compile(statement: ast.stmt) -> bool:
    """``do_compile = do_compile and ...``."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BoolOp):
        return False
    target = " ".join(names_in(statement.targets[0])).lower()
    return (
        isinstance(statement.value.op, ast.And)
        and "compile" in target
        and not any(word in target for word in ("compiled", "is_", "was_", "already"))
    )
