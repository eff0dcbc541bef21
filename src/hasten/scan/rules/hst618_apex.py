"""Mixed precision and parallel training by Apex."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class Apex(Rule):
    code = "HST618"
    name = "apex-amp"
    why = (
        "Apex AMP is abandoned: it patches functions of torch with casts, reads an overflow flag on"
        " the host at each step, and works with neither `torch.compile` nor new optimizers."
    )
    instead = "Use `torch.autocast` with `torch.amp.GradScaler`, or bfloat16 without a scaler."
    risk = "rounding: other operations run in 16 bits"
    effort = "an hour"
    verify = "Compare losses of both versions from the same seed over some hundred steps."
    calls = (
        "initialize", "scale_loss", "FP16_Optimizer", "network_to_half", "DistributedDataParallel",
        "DDP", "convert_syncbn_model",
    )  # fmt: skip
    mentions = ("apex",)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from apex import amp

def train(model, loader, optimizer):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")  # !
    for x, y in loader:
        loss = model(x, y)
        with amp.scale_loss(loss, optimizer) as scaled:  # !
            scaled.backward()
        optimizer.step()
""",
        """\
import torch

class Trainer:
    def build(self):
        if self.fp16:
            try:
                from apex.optimizers import FP16_Optimizer
                from apex.parallel import DistributedDataParallel as DDP
            except ImportError:
                raise ImportError("fp16 wants apex")
            self.optimizer = FP16_Optimizer(self.optimizer, static_loss_scale=128)  # !
            self.model = DDP(self.model)  # !
""",
        """\
import torch
import apex

def build(model):
    model = apex.parallel.convert_syncbn_model(model)  # !
    return apex.parallel.DistributedDataParallel(model)  # !
""",
        """\
import deepspeed
import torch
from mine.apex_free import amp

def build(model, optimizer, settings):
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    model = torch.nn.parallel.DistributedDataParallel(model)
    return engine, model, amp.initialize(model)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        called = look.dotted(site.node.func)
        if called.startswith("apex."):
            yield Found(site.node, f"`{called}` is of Apex")
