"""``nn.DataParallel``."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class DataParallel(Rule):
    code = "HST501"
    name = "data-parallel"
    why = (
        "DataParallel copies the weights to every device at each step, runs all of them from one"
        " Python process, and gathers outputs on the first."
    )
    instead = "Start a process for each device and wrap the model in DistributedDataParallel."
    effort = "an hour"
    risk = "the batch of a process is a part of the old one: scale it, and mind BatchNorm"
    calls = ("DataParallel", "DP", "data_parallel", "DataParallelWithCallback")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def build(model, gpus):
    if len(gpus) > 1:
        model = torch.nn.DataParallel(model, device_ids=gpus)  # !
    return model
""",
        """\
from torch.nn import DataParallel as DP

class Trainer:
    def __init__(self, model):
        self.model = DP(model).cuda()  # !
""",
        """\
from torch import nn

def forward(model, x):
    return nn.parallel.data_parallel(model, x, [0, 1])  # !
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DP

def build(model, rank):
    model = DP(model, device_ids=[rank])
    if isinstance(model, torch.nn.DataParallel):
        return model.module
    return model
""",
        """\
import torch
from megatron import DataParallel

def build(model):
    return DataParallel(model)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        name = look.dotted(site.node.func)
        if name.startswith("torch.nn.") and name.endswith((".DataParallel", ".data_parallel")):
            yield Found(site.node, f"`{look.source(site.node.func)}` copies the model every step")
