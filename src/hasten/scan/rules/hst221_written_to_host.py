"""A buffer on the host that is filled from the device, bit by bit."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, is_own_attribute
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.value import HOST_TENSOR


class WrittenToHost(Rule):
    code = "HST221"
    name = "written-to-host"
    why = (
        "The buffer lies on the host: each write from the device is a copy that waits until"
        " everything before it is computed."
    )
    instead = (
        "Make the buffer with `device=x.device` and copy it once after the loop, or collect in a"
        " list and join."
    )
    risk = "the buffer takes memory of the device"
    nodes = (ast.Assign,)
    in_loops = True
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def rank(model, loader, count):
    scores = torch.zeros(count, 10)
    for i, x in enumerate(loader):
        found = model(x.cuda())
        scores[i * 64 : (i + 1) * 64] = found.topk(10).values  # !
    return scores
""",
        """\
from torch import empty, log10

def ratio_loss(estimates, targets):
    found = empty(len(estimates))
    for i in range(len(estimates)):
        error = (estimates[i] - targets[i]).square().sum(dim=0)
        found[i] = 10 * log10(error)  # !
    return found.mean()
""",
        """\
import torch

class Ranks:
    def __init__(self, count):
        self.ranks = torch.empty(count)

    def evaluate(self, model, loader):
        self.ranks = self.ranks.cuda()
        on_device = torch.zeros(9, device="cuda")
        host = torch.zeros(9)
        for i, x in enumerate(loader):
            self.ranks[i] = model(x).argmax()
            on_device[i] = model(x).argmax()
            host[i] = len(x)
            host[i] = model(x).sum().cpu()
        return self.ranks.cpu(), host
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        target = site.node.targets[0]
        if not isinstance(target, ast.Subscript) or look.prepares_data(site):
            return
        buffer = target.value
        if not isinstance(buffer, ast.Name) and not is_own_attribute(buffer):
            return
        if look.value(buffer, site) != HOST_TENSOR:
            return
        if look.is_on_device(site.node.value, site):
            yield Found(site.node, f"`{look.source(target)}` is copied to the host by itself")
