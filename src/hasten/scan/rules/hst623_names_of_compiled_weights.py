"""Weights of a compiled model that are saved under other names."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class NamesOfCompiledWeights(Rule):
    code = "HST623"
    name = "names-of-compiled-weights"
    why = (
        "`torch.compile` wraps the model, so that all names in the checkpoint begin with"
        " `_orig_mod.` and do not fit the model that it was made from."
    )
    instead = "Compile in place with `model.compile()`, or save the model that was wrapped."
    effort = "a minute"
    verify = "Load the checkpoint into a model that is not compiled."
    calls = ("state_dict",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    model = torch.compile(model)
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({"model": model.state_dict()}, "last.pt")  # !
""",
        """\
import torch

def train(model, loader):
    fast = torch.compile(model)
    run(fast, loader)
    torch.save(model.state_dict(), "last.pt")
""",
        """\
import torch

def train(model, loader):
    model.compile()
    run(model, loader)
    torch.save(model.state_dict(), "last.pt")

def other(model):
    model = torch.compile(model)
    torch.save(strip(model.state_dict(), "_orig_mod."), "last.pt")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = receiver(site.node)
        if not isinstance(on, ast.Name):
            return
        made = look.values.given(on, site.function)
        if not isinstance(made, ast.Call) or look.dotted(made.func) != "torch.compile":
            return
        saves = any("save" in each.called for each in site.function.calls)
        if saves and "_orig_mod" not in look.text:
            yield Found(site.node, f"names in `{look.source(site.node)}` begin with `_orig_mod.`")
