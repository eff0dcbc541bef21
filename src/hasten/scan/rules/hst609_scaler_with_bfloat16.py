"""A gradient scaler for bfloat16."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, keyword
from hasten.scan.outline import Site
from hasten.scan.precision import dtype_of, is_autocast
from hasten.scan.rule import Found, Rule


class ScalerWithBfloat16(Rule):
    code = "HST609"
    name = "scaler-with-bfloat16"
    why = (
        "bfloat16 has the range of float32, so there is nothing to scale: each step pays for a"
        " check of all gradients and a wait for its result."
    )
    instead = "Remove the scaler, and call `backward()` and `optimizer.step()` plainly."
    risk = "steps with infinite gradients are no longer skipped"
    calls = ("GradScaler", "autocast")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")  # !
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
        """\
import torch
from torch.cuda.amp import GradScaler

class Trainer:
    def __init__(self):
        self.scaler = GradScaler()  # !

    def loss(self, x):
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            return self.model(x)
""",
        """\
import torch

def train(model, loader, dtype):
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(loader)
""",
        """\
import torch

def train(model, loader, dtype):
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=dtype):
        model(loader)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(loader)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.called != "GradScaler" or keyword(site.node, "enabled") is not None:
            return
        dtypes = {
            dtype_of(each.node, each.function, look)
            for each in look.outline.calls.get("autocast", ())
            if is_autocast(each.node, look)
        }
        if dtypes == {"torch.bfloat16"}:
            yield Found(site.node, "bfloat16 needs no gradient scaler")
