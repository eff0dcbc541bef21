"""Names of mixed precision that are going away."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

OLD = ("torch.cuda.amp.", "torch.cpu.amp.", "apex.amp.")


class DeprecatedAmp(Rule):
    code = "HST901"
    name = "deprecated-amp"
    why = "`torch.cuda.amp` and apex are deprecated: they warn, and will go."
    instead = "Write `torch.autocast('cuda')` and `torch.amp.GradScaler('cuda')`."
    effort = "a minute"
    calls = ("autocast", "GradScaler", "initialize", "scale_loss", "custom_fwd", "custom_bwd")
    nodes = (ast.ImportFrom,)
    least = Heat.ONCE
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

scaler = torch.cuda.amp.GradScaler()  # !

def run(model, x):
    with torch.cuda.amp.autocast():  # !
        return model(x)
""",
        """\
import torch
from torch.cuda.amp import autocast  # !

def run(model, x):
    with autocast():  # !
        return model(x)
""",
        """\
import torch
from torch.amp import GradScaler, autocast

def run(model, x):
    with autocast("cuda"), torch.autocast("cuda"):
        return model(x)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.ImportFrom):
            old = f"{node.module}." in OLD and not node.level
        else:
            old = look.dotted(node.func).startswith(OLD)
        if old:
            yield Found(node, f"`{look.source(node)}` is deprecated")
