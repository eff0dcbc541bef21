"""What needs the whole batch, on batches that were split to add up gradients."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, last_name
from hasten.scan.training import Window, steps_optimizer, window_of

OF_PAIRS = re.compile(
    r"contrast|info_?nce|nt_?xent|sim_?clr|clip_?loss|sup_?con|sig_?lip|barlow|vic_?reg|triplet"
    r"|multiple_?negatives|n_?pair|in_?batch|arcface|dcl_?loss",
    re.IGNORECASE,
)
NORMS = re.compile(r"\b(Lazy)?BatchNorm[123]d\(")


class BatchSplit(Rule):
    code = "HST661"
    name = "batch-wide-on-split-batches"
    why = (
        "Gradients of small batches add up to that of a large one only where samples do not see"
        " each other: pairs between the parts are missing from the loss, and BatchNorm takes its"
        " statistics from each part."
    )
    instead = (
        "For a loss of pairs compute all embeddings first and send gradients back in chunks; for"
        " BatchNorm use GroupNorm or LayerNorm, or a batch as large as memory allows."
    )
    risk = "training changes: it becomes that of the large batch"
    effort = "a day"
    calls = ("step",)
    mentions = ("%",)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from losses import info_nce

def train(encoder, loader, optimizer, k):
    for i, (a, b) in enumerate(loader):
        loss = info_nce(encoder(a), encoder(b)) / k  # !
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from losses import NTXentLoss

class Trainer:
    def __init__(self, model):
        self.criterion = NTXentLoss(0.1)

    def fit(self, loader, k):
        for i, (a, b) in enumerate(loader):
            out = self.model(a), self.model(b)
            (self.criterion(*out) / k).backward()  # !
            if (i + 1) % k == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
""",
        """\
import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

def train(loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        (nn.functional.mse_loss(net(x), y) / k).backward()
        if (i + 1) % k == 0:  # !
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from losses import info_nce

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        (torch.nn.functional.cross_entropy(model(x), y) / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()

def whole(encoder, loader, optimizer, log):
    for i, (a, b) in enumerate(loader):
        info_nce(encoder(a), encoder(b)).backward()
        optimizer.step()
        if i % 100 == 0:
            log(i)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not steps_optimizer(site, look):
            return
        window = window_of(site, look)
        if window is None:
            return
        of_pairs = next(self._of_pairs(window, look), None)
        if of_pairs is not None:
            said = f"`{look.source(of_pairs.func)}` compares within a part of the batch only"
            yield Found(of_pairs, said)
        elif NORMS.search(look.text):
            yield Found(window.test, "BatchNorm sees a part of the batch at a time")

    def _of_pairs(self, window: Window, look: Look) -> Iterator[ast.Call]:
        """Calls of a loss of pairs, by its name or by what it was made with."""
        function = window.step.function
        for each in calls_in(window.loop) if window.loop is not None else function.calls:
            called = each.node.func
            made = look.values.given(called, function)
            if OF_PAIRS.search(last_name(called)) or OF_PAIRS.search(called_name(made)):
                yield each.node
