"""A barrier in a hot place."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import last_name

OWNERS = re.compile(r"dist|accelerator|fabric|strategy|comm|^hvd$|^xm$|^state$", re.IGNORECASE)


class BarrierPerStep(Rule):
    code = "HST505"
    name = "barrier-per-step"
    why = (
        "All ranks wait for the slowest at each barrier; gradients already wait for one another"
        " where they have to."
    )
    instead = "Remove it; keep barriers for what is done once, as loading or saving."
    effort = "a minute"
    calls = ("barrier", "wait_for_everyone", "monitored_barrier")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.distributed as dist

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        dist.barrier()  # !
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch

class Trainer:
    def train(self):
        while self.step < self.train_num_steps:
            loss = self.model(next(self.batches))
            self.accelerator.backward(loss)
            self.accelerator.wait_for_everyone()  # !
            self.opt.step()
""",
        """\
import torch

def all_there():
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # !

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        all_there()
        optimizer.step()
""",
        """\
import torch
import torch.distributed as dist

def train(model, loader, optimizer, epochs):
    dist.barrier()
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            model(x, y).backward()
            optimizer.step()
            if step % 1000 == 0:
                save(model)
                dist.barrier()
        dist.barrier()
""",
        """\
import torch
import threading

def work(loader, barrier):
    for x in loader:
        barrier.barrier()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = receiver(site.node)
        whose = last_name(on) if on is not None else look.dotted(site.node.func)
        if site.called != "barrier" or OWNERS.search(whose):
            said = f"`{look.source(site.node.func)}()` makes all ranks wait"
            yield Found(site.node, said, assumes=False)
