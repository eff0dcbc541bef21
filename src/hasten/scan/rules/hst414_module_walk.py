"""A walk over all modules of a model, every step."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ModuleWalk(Rule):
    code = "HST414"
    name = "module-walk-per-step"
    why = "The tree of modules is the same every step, and walking it is slow Python."
    instead = "Collect the modules or parameters once, when the model is made."
    calls = ("modules", "named_modules")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Penalty(torch.nn.Module):
    def forward(self, model):
        total = 0.0
        for module in model.modules():  # !
            if isinstance(module, torch.nn.Linear):
                total = total + module.weight.norm()
        return total
""",
        """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for module in self.modules():
            self.reset(module)

    def forward(self, x):
        return self.layers(x)

def find_linear(model):
    return [each for each in model.modules() if isinstance(each, torch.nn.Linear)]

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        freeze(find_linear(model))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        held = receiver(site.node)
        if held is None or site.function.last_name.startswith(("__init__", "reset", "init")):
            return
        if not _is_of_step(site, look):
            return
        yield Found(site.node, f"`{look.source(site.node)}` walks the whole model")


PENALTIES = re.compile(r"loss|penalty|regulari[sz]|divergence|(^|_)kl(_|$)")


def _is_of_step(site: Site, look: Look) -> bool:
    """Whether the function itself is a step or a part of one: what only looks modules up, for
    whoever asks, is mostly asked when a model is set up."""
    function = site.function
    if max(look.heats.of_role(function), look.local(site).known) >= Heat.STEP:
        return True
    return PENALTIES.search(function.last_name) is not None
