"""Ranks that all go over all data."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

SPLIT = ("Sampler", "sampler", "shard", "split_dataset", "Accelerator", "Fabric", ".prepare(")


class SameDataOnAllRanks(Rule):
    code = "HST510"
    name = "same-data-on-all-ranks"
    why = (
        "Without a sampler that splits the data each rank goes over all of it: an epoch takes as"
        " long as with one device."
    )
    instead = "Give the loader a `DistributedSampler` in place of `shuffle=True`."
    risk = "an epoch becomes as much shorter as there are ranks: mind the schedule"
    calls = ("DataLoader",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

def main(net, dataset, rank):
    model = DDP(net, device_ids=[rank])
    loader = DataLoader(dataset, batch_size=32, shuffle=True)  # !
    train(model, loader)
""",
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

def main(net, dataset, rank):
    model = DDP(net, device_ids=[rank])
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
    train(model, loader)
""",
        """\
import torch
from torch.utils.data import DataLoader

def main(net, dataset):
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    train(net, loader)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not is_constant(keyword(site.node, "shuffle"), True):
            return
        wraps = any(look.calls_in(site.function, "DistributedDataParallel", "DDP"))
        if wraps and not any(each in look.text for each in SPLIT):
            yield Found(site.node, "every rank goes over all of the data")
