"""A hook on a model that is compiled already."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class HookAfterCompile(Rule):
    code = "HST631"
    name = "hook-after-compile"
    why = "Compiled code does not look for hooks that came later: they are left out or run twice."
    instead = "Register hooks before compiling, or call `torch._dynamo.reset()` after."
    effort = "a minute"
    verify = "Count how often the hook is called."
    calls = (
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    )
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def watch(model, hook):
    model = torch.compile(model)
    model.register_forward_hook(hook)  # !
    model.encoder.layer.register_full_backward_hook(hook)  # !
    return model
""",
        """\
import torch

def watch(model, hook):
    model.register_forward_hook(hook)
    return torch.compile(model)
""",
        """\
import torch

def watch(model, other, hook):
    fast = torch.compile(model)
    other.register_forward_hook(hook)
    return fast
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        root = receiver(site.node)
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        made = look.values.given(root, site.function) if isinstance(root, ast.Name) else None
        if isinstance(made, ast.Call) and look.dotted(made.func) == "torch.compile":
            yield Found(site.node, "the model is compiled already and may not see this hook")
