"""``torch.compile`` in a ``try`` that cannot catch what it raises."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_within
from hasten.scan.outline import Block, Site
from hasten.scan.rule import Found, Rule


class CompileInTry(Rule):
    code = "HST620"
    name = "compile-in-try"
    why = (
        "`torch.compile` only wraps the model; what fails is its first call, far outside of this"
        " `try`, so that the fallback never happens."
    )
    instead = "Run one batch through the compiled model inside the `try`."
    verify = "Make the backend fail (`backend='no_such'` in a call) and see that training goes on."
    calls = ("compile",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def build(model):
    try:
        model = torch.compile(model)  # !
    except Exception:
        print("runs without compiling")
    return model
""",
        """\
import torch

class Trainer:
    def __init__(self, model):
        if hasattr(torch, "compile"):
            try:
                self.model = torch.compile(model, mode="max-autotune")  # !
            except RuntimeError as error:
                self.model = model
""",
        """\
import torch

def build(model, x):
    try:
        compiled = torch.compile(model)
        compiled(x)
    except Exception:
        return model
    return compiled
""",
        """\
import re
import torch

def build(model, pattern):
    try:
        re.compile(pattern)
    except re.error:
        return None
    return torch.compile(model)
""",
        """\
import torch

def build(model):
    try:
        return torch.compile(model)
    except RuntimeError as error:
        raise ValueError("needs a compiler") from error
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.block is None or look.dotted(site.node.func) != "torch.compile":
            return
        for block in site.block.outwards():
            if isinstance(block.node, ast.Try) and block.branch == "body":
                if _falls_back(block.node) and not _is_run(block, site, look):
                    yield Found(site.node, "`torch.compile` fails at the first call, not here")
                return


def _falls_back(node: ast.Try) -> bool:
    return any(not isinstance(each.body[-1], ast.Raise) for each in node.handlers)


def _is_run(block: Block, site: Site, look: Look) -> bool:
    """Whether the compiled model is called in the ``try``, or handed to a call."""
    if not isinstance(site.statement, ast.Assign):
        return False
    names = {look.source(each) for each in site.statement.targets}
    return any(
        is_within(each, block)
        and names & {look.source(part) for part in (each.node.func, *each.node.args)}
        for each in site.function.calls
        if each.node.lineno > site.node.lineno
    )
