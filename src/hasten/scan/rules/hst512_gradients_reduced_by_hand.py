"""Gradients that are exchanged after the backward pass, by a function of one's own."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, names_in
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given

REDUCES = re.compile(r"^_*(all_?reduce|reduce|average|avg|sync|synchronize|mpi_avg)_")


class GradientsReducedByHand(Rule):
    code = "HST512"
    name = "gradients-reduced-by-hand"
    why = (
        "The exchange begins when the backward pass has ended, and the device waits for it;"
        " DistributedDataParallel exchanges what is ready while the rest is computed."
    )
    instead = "Wrap the model in `DistributedDataParallel`, with `no_sync()` while accumulating."
    effort = "an hour"
    risk = "sums in another order round differently"
    verify = "Compare the gradients of one step."
    least = Heat.ONCE
    calls = ("*_grads", "*_grad", "*_gradients", "*_gradient", "*_tensors")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from mine import all_reduce_tensors, average_gradients

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        grads = [p.grad.data for p in model.parameters() if p.grad is not None]
        all_reduce_tensors(grads, 8)  # !
        optimizer.step()

class Trainer:
    def train_step(self, x):
        self.model(x).backward()
        average_gradients(self.model)  # !
        self.optimizer.step()
""",
        """\
import torch
from mine import all_reduce_tensors, clip_grads

def evaluate(model, loader):
    for x, y in loader:
        found = model(x, y)
        all_reduce_tensors([found.loss, found.count])

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        clip_grads(model)
        optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        name = site.called
        if REDUCES.search(name) is None or not site.node.args:
            return
        if "grad" in name or self._takes_gradients(site):
            yield Found(site.node, f"`{name}` exchanges gradients when all of them are there")

    def _takes_gradients(self, site: Site) -> bool:
        given = site.node.args[0]
        return any(
            "grad" in names_in(each)
            for each in (given, last_given(given, site.function))
            if each is not None
        )
