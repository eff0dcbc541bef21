"""A whole model under one checkpoint."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

WHOLE = ("model", "net", "network", "forward", "self")


class WholeModelCheckpointed(Rule):
    code = "HST314"
    name = "whole-model-checkpointed"
    why = "All is computed twice, and while it is computed again all activations are there again."
    instead = "Checkpoint each block."
    calls = ("checkpoint",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.checkpoint import checkpoint

def step(model, x):
    return checkpoint(model, x, use_reentrant=False)  # !
""",
        """\
import torch
from torch.utils.checkpoint import checkpoint

class Net(torch.nn.Module):
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if "checkpoint" not in look.dotted(call.func) or not call.args:
            return
        if last_name(call.args[0]) in WHOLE:
            yield Found(call, f"`{look.source(call.args[0])}` is computed twice as a whole")
