"""``self.forward = torch.compile(self.forward)``."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, assigned
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ForwardReplacedByCompiled(Rule):
    code = "HST622"
    name = "forward-replaced-by-compiled"
    why = (
        "The compiled function hangs on the object: the module can no longer be copied or pickled,"
        " and a copy would still call the weights of the first."
    )
    instead = "Call `module.compile()`, which compiles in place."
    effort = "a minute"
    verify = "`copy.deepcopy` the module, change its weights, and compare outputs."
    writes = ("forward",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(2, 2)
        self.forward = torch.compile(self.forward)  # !

    def forward(self, x):
        return self.body(x)
""",
        """\
import torch

def build(model):
    model.forward = torch.compile(model.forward, mode="reduce-overhead")  # !
    return model
""",
        """\
import torch

def build(model, other):
    model.compile()
    model.forward = other
    model.body = torch.compile(model.body)
    return model
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        value = assigned(site)
        if isinstance(value, ast.Call) and look.dotted(value.func) == "torch.compile":
            yield Found(site.node, f"`{look.source(site.node)}` is replaced by a compiled one")
