"""A switch that makes everything slow, left from looking for a fault."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, assigned, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

WAITS = "CUDA_LAUNCH_BLOCKING"


class FastPathSwitchedOff(Rule):
    code = "HST633"
    name = "fast-path-switched-off"
    why = (
        "With `CUDA_LAUNCH_BLOCKING` the host waits for each kernel; without cuDNN convolutions and"
        " recurrent layers run on slower code; with `suppress_errors` what cannot be compiled runs"
        " uncompiled and only a log line says so."
    )
    instead = "Set it from outside while you look for a fault, and remove it here."
    effort = "a minute"
    nodes = (ast.Subscript,)
    indexed = (ast.Constant,)
    writes = ("enabled", "suppress_errors")
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import os
import torch

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # !
torch.backends.cudnn.enabled = False  # !
""",
        """\
import torch
import torch._dynamo

torch._dynamo.config.suppress_errors = True  # !
""",
        """\
import os
import torch

os.environ["CUDA_LAUNCH_BLOCKING"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
torch.backends.cudnn.enabled = True

def debug(args):
    if args.debug:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        torch.backends.cudnn.enabled = False
    return os.environ["CUDA_LAUNCH_BLOCKING"]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.Subscript):
            if not is_constant(node.slice, WAITS) or not isinstance(node.ctx, ast.Store):
                return
            on = is_constant(assigned(site), "1")
        else:
            name = look.dotted(node)
            on = (name.endswith("cudnn.enabled") and is_constant(assigned(site), False)) or (
                name.endswith("_dynamo.config.suppress_errors")
                and is_constant(assigned(site), True)
            )
        if on and not look.is_rare(site):
            yield Found(node, f"`{look.source(site.statement)}` makes everything slow")
