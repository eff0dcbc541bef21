"""A forward pass around DistributedDataParallel."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import is_distributed


class WrappedModuleCalled(Rule):
    code = "HST511"
    name = "wrapped-module-called"
    why = (
        "DistributedDataParallel prepares the exchange of gradients in its own forward pass; one of"
        " `model.module` goes around it, and ranks drift apart or wait for each other."
    )
    instead = "Call the wrapper itself; give `forward` an argument that says what to compute."
    verify = "Compare the weights of two ranks after some steps."
    calls = ("module",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, optimizer):
    model = DDP(net)
    for x, y in loader:
        loss = model.module(x, y)  # !
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, optimizer):
    model = DDP(net)
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            seen = model.module(x)

def evaluate(model, loader):
    return [model.module(x) for x in loader]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = site.loop
        if loop is None or not loop.has_backward or look.without_grad(site):
            return
        if is_distributed(look):
            yield Found(site.node, f"`{look.source(site.node.func)}` goes around the wrapper")
