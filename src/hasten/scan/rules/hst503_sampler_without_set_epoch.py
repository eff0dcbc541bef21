"""A DistributedSampler that is never told which epoch it is."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import EVALUATION

CALLED_FOR_YOU = ("set_epoch", "lightning", "Accelerator", "Fabric", "Trainer(")


class SamplerWithoutSetEpoch(Rule):
    code = "HST503"
    name = "sampler-without-set-epoch"
    why = (
        "DistributedSampler shuffles by its seed and its epoch: without `set_epoch` all epochs have"
        " the same order, and the same samples meet in a batch."
    )
    instead = "Call `sampler.set_epoch(epoch)` at the top of each epoch."
    effort = "a minute"
    risk = "the order of samples changes, as it was meant to"
    calls = ("DistributedSampler",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

def main(dataset, model, optimizer, epochs):
    sampler = DistributedSampler(dataset)  # !
    loader = DataLoader(dataset, sampler=sampler, batch_size=32)
    for epoch in range(epochs):
        for x, y in loader:
            model(x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from torch.utils.data import DataLoader, DistributedSampler

def main(dataset, held_out, model, epochs):
    sampler = DistributedSampler(dataset)
    val_sampler = DistributedSampler(held_out, shuffle=False)
    loader = DataLoader(dataset, sampler=sampler, batch_size=32)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        train(model, loader)
""",
        """\
import torch
from torch.utils.data import DataLoader, DistributedSampler

def loader_of(dataset):
    return DataLoader(dataset, sampler=DistributedSampler(dataset), batch_size=32)
""",
        """\
import torch
from torch.utils.data import DataLoader, DistributedSampler

def evaluate(held_out, model, epochs):
    val_sampler = DistributedSampler(held_out)
    for epoch in range(epochs):
        for x, y in DataLoader(held_out, sampler=val_sampler):
            model(x)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        shuffle = keyword(site.node, "shuffle")
        if shuffle is not None and not is_constant(shuffle, True):
            return
        if any(each in look.text for each in CALLED_FOR_YOU) or _is_for_evaluation(site, look):
            return
        if _has_epochs(look):
            yield Found(site.node, "`set_epoch` is never called: all epochs have the same order")


def _is_for_evaluation(site: Site, look: Look) -> bool:
    line = look.lines_of(site.statement).split("=")[0]
    return EVALUATION.search(line.strip()) is not None


def _has_epochs(look: Look) -> bool:
    """Whether this file has the loop in which to call it."""
    return any(
        look.heats.kind_of(loop) is Heat.EPOCH
        for function in look.outline.functions
        for loop in function.loops
    )
