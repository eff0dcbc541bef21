"""``no_sync`` around the backward pass only."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.vocabulary import words

PLAIN = words("backward scale manual_backward float detach mean sum item append div")
"""Calls that run no model."""


class ForwardOutsideNoSync(Rule):
    code = "HST617"
    name = "forward-outside-no-sync"
    why = (
        "DistributedDataParallel decides in the forward pass whether the next backward pass"
        " exchanges gradients: with only the backward pass within, all of them are exchanged."
    )
    instead = "Put the forward pass into the same `with ...no_sync():` as its backward pass."
    risk = "gradients of a window are exchanged once, as it was meant"
    verify = "Count the collectives of a window in a profile."
    calls = ("no_sync",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        loss = model(x, y) / k
        if (i + 1) % k:
            with model.no_sync():  # !
                loss.backward()
        else:
            loss.backward()
            optimizer.step()

class Trainer:
    def fit_batch(self, batch):
        loss = self.compute(batch)
        with self.no_sync(not self.should_step):  # !
            self.scaler.scale(loss / self.count).backward()
""",
        """\
import contextlib
import torch

def train(model, loader, optimizer, accelerator, k):
    for i, (x, y) in enumerate(loader):
        with model.no_sync() if (i + 1) % k else contextlib.nullcontext():
            loss = model(x, y) / k
            loss.backward()
        with accelerator.no_sync(model):
            compute_loss(x, y).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        statement = site.statement
        if not isinstance(statement, ast.With):
            return
        called = {
            called_name(each)
            for inner in statement.body
            for each in walk(inner)
            if isinstance(each, ast.Call)
        }
        if called & {"backward", "manual_backward"} and called <= PLAIN:
            yield Found(site.node, "only the backward pass is within `no_sync`: it has no effect")
