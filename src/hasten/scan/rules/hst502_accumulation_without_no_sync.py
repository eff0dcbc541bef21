"""Gradients that are added up over batches and sent to the other ranks at each of them."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, names_in
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import is_distributed, optimizer_steps, window_of

ACCUMULATES = re.compile(r"accum", re.IGNORECASE)
RIGHT = ("no_sync", "accumulate(", "set_requires_gradient_sync", "require_backward_grad_sync")


class AccumulationWithoutNoSync(Rule):
    code = "HST502"
    name = "accumulation-without-no-sync"
    why = (
        "Every backward pass sends all gradients between the ranks; only those of the last one"
        " before the optimizer's step are needed."
    )
    instead = "Run all but the last backward pass of a window under `model.no_sync()`."
    verify = "Compare gradients of both versions after a window."
    calls = ("backward",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
from accelerate import Accelerator
import torch

def train(accelerator, model, batches, opt, gradient_accumulate_every):
    while True:
        for _ in range(gradient_accumulate_every):
            with accelerator.autocast():
                loss = model(next(batches)) / gradient_accumulate_every
            accelerator.backward(loss)  # !
        opt.step()
        opt.zero_grad()

accelerator = Accelerator()
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, optimizer, rank, k):
    model = DDP(net, device_ids=[rank])
    for i, (x, y) in enumerate(loader):
        loss = model(x, y) / k
        loss.backward()  # !
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, optimizer, rank, k):
    model = DDP(net, device_ids=[rank])
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % k == 0
        with contextlib.nullcontext() if last else model.no_sync():
            (model(x, y) / k).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, optimizers, rank, accum):
    model = DDP(net, device_ids=[rank])
    for i, (x, y) in enumerate(loader):
        (model(x, y) / accum).backward()  # !
        if i % accum == 0:
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        (model(x, y) / accum).backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from accelerate import Accelerator

def train(accelerator, model, loader, optimizer):
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x, y))
            optimizer.step()
            optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None or not (
            _is_micro_loop(site.loop, site, look) or _has_window(site, look)
        ):
            return
        if is_distributed(look) and not any(each in look.text for each in RIGHT):
            yield Found(
                site.node, f"`{look.source(site.node.func)}` sends gradients at each micro-batch"
            )


def _is_micro_loop(loop: Loop, site: Site, look: Look) -> bool:
    """``for _ in range(accumulation_steps)`` without a step of the optimizer in it."""
    target, over = loop.header()
    if target is None or not any(ACCUMULATES.search(each) for each in names_in(over)):
        return False
    return not any(each.loop is loop for each in look.calls_in(site.function, "step"))


def _has_window(site: Site, look: Look) -> bool:
    windows = (window_of(each, look) for each in optimizer_steps(site.function, look))
    return any(each is not None and each.loop is site.loop for each in windows)
