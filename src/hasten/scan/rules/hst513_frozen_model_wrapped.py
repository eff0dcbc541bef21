"""A model that is not trained, wrapped to exchange gradients."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

FROZEN = re.compile(
    r"(^|_)(teacher|ema|frozen|reference|ref|distill?|averaged?)(_|\d|$)", re.IGNORECASE
)


class FrozenModelWrapped(Rule):
    code = "HST513"
    name = "frozen-model-wrapped"
    why = (
        "Buckets for gradients as large as the model are allocated on every rank, and its buffers"
        " are sent at each forward, though it gets no gradient."
    )
    instead = "Call the plain module: each rank has its own copy of the same weights."
    effort = "a minute"
    calls = ("DistributedDataParallel", "DDP")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build(model, teacher, rank):
    model = DDP(model, device_ids=[rank])
    teacher = DDP(teacher, device_ids=[rank])  # !
    return model, teacher

class Distiller:
    def wrap(self):
        self.model_ema = torch.nn.parallel.DistributedDataParallel(self.model_ema)  # !
""",
        """\
import torch

def build(model, generator, rank):
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    return model, torch.nn.parallel.DistributedDataParallel(module=generator)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        wrapped = site.node.args[0] if site.node.args else None
        if FROZEN.search(last_name(wrapped)):
            yield Found(site.node, f"`{last_name(wrapped)}` is wrapped, but not trained")
